//! Writes the valid inputs that fuzzing starts from: `cargo run --example seeds -- FOLDER`.

use dgmm_fuzz::{fits, model_files, shard_bytes};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).expect("a folder is named");
    let all = [("fits", fits::seeds()), ("model_files", model_files::seeds()), ("shard_bytes", shard_bytes::seeds())];
    for (target, seeds) in all {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
