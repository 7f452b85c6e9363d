//! The arithmetic that the time goes into: distances one by one and in dense blocks, selection of the nearest, sums.
//!
//! [`reference`] holds the plain twins that say what each kernel computes; [`dispatch`] chooses the instruction set.

pub(crate) mod reference;

mod interface;
pub use interface::Kernel;
pub(crate) use interface::{Centres, RowBlock};
