//! Structure of the library: modules depend on one another in one direction, functions and files are short, and unsafe
//! code is in one place. Read from the source, which the packaged crate also contains.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 400;
const MOST_LINES_OF_A_FUNCTION: usize = 60;
/// Each may import from those before it. Modules that are not listed serve all of them.
const ORDER: [&str; 9] = ["kernel", "data", "model", "step", "seeding", "index", "plan", "fit", "query"];

/// A file of `src`: its path there, its text, and its code without comments, literals and tests, line by line.
struct Source {
    path: PathBuf,
    text: String,
    code: String,
}

impl Source {
    /// The top-level module that the file belongs to.
    fn module(&self) -> String {
        let first = self.path.iter().next().expect("a path has parts").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.iter().any(|part| part == "tests")
    }
}

fn sources() -> Vec<Source> {
    fn visit(folder: &Path, root: &Path, found: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, root, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = without_tests(&without_comments(&text));
                found.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text, code });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    visit(&root, &root, &mut found);
    assert!(found.len() > 50, "only {} files in {}", found.len(), root.display());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The length of the comment or literal at the beginning of `rest`; 0 if there is none.
fn length_of_a_comment_or_literal(rest: &str) -> usize {
    let until = |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return until(2, "*/");
    }
    if rest.starts_with("r#\"") {
        return until(3, "\"#");
    }
    if rest.starts_with("r\"") {
        return until(2, "\"");
    }
    if let Some(text) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = text.find(|x| {
            let ends = x == '"' && !escaped;
            escaped = x == '\\' && !escaped;
            ends
        });
        return end.map_or(rest.len(), |at| at + 2);
    }
    let mut chars = rest.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('\''), Some('\\'), _) => until(3, "'"),
        (Some('\''), Some(x), Some('\'')) => 2 + x.len_utf8(),
        _ => 0,
    }
}

/// Blanks out comments and literals, keeping line numbers.
fn without_comments(text: &str) -> String {
    let (mut code, mut at, mut in_word) = (String::new(), 0, false);
    while let Some(next) = text[at..].chars().next() {
        let length = if in_word { 0 } else { length_of_a_comment_or_literal(&text[at..]) };
        if length == 0 {
            code.push(next);
            at += next.len_utf8();
            in_word = next.is_alphanumeric() || next == '_';
        } else {
            code.extend(text[at..at + length].chars().map(|x| if x == '\n' { x } else { ' ' }));
            at += length;
            in_word = false;
        }
    }
    code
}

/// The range of the body, including braces, of the item that begins at `start`; `None` if it has none.
fn body(code: &str, start: usize) -> Option<(usize, usize)> {
    let (mut nested, mut braces, mut begin) = (0i32, 0i32, None);
    for (i, x) in code[start..].char_indices() {
        match x {
            '(' | '[' if begin.is_none() => nested += 1,
            ')' | ']' if begin.is_none() => nested -= 1,
            ';' if begin.is_none() && nested == 0 => return None,
            '{' => {
                begin = begin.or(Some(start + i));
                braces += 1;
            }
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return begin.map(|begin| (begin, start + i + 1));
                }
            }
            _ => (),
        }
    }
    None
}

/// Removes items that are compiled only for tests, keeping line numbers.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(found) = code[at..].find(MARK) {
        let (start, after) = (at + found, at + found + MARK.len());
        let end =
            body(code, after).map_or_else(|| code[after..].find(';').map_or(code.len(), |i| after + i + 1), |b| b.1);
        kept.push_str(&code[at..start]);
        kept.extend(code[start..end].chars().filter(|&x| x == '\n'));
        at = end;
    }
    kept.push_str(&code[at..]);
    kept
}

/// The words of the code and where each begins.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |x: char| x.is_alphanumeric() || x == '_';
    let starts = code.char_indices().scan(false, move |inside, (i, x)| {
        let begins = is_word(x) && !*inside;
        *inside = is_word(x);
        Some(begins.then_some(i))
    });
    starts.flatten().map(move |i| (i, code[i..].split(|x| !is_word(x)).next().expect("a word begins here")))
}

/// The names that follow `crate::` in the code: one, or the first of each path in braces.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.extend(words(rest).next().map(|(_, word)| word.to_owned()));
            continue;
        };
        let mut depth = 0;
        let inner = list.split(|x| {
            depth += i32::from(x == '{') - i32::from(x == '}');
            depth < 0
        });
        let mut depth = 0;
        let paths = inner.take(1).flat_map(|paths| {
            paths
                .split(|x| {
                    depth += i32::from(x == '{') - i32::from(x == '}');
                    x == ',' && depth == 0
                })
                .collect::<Vec<_>>()
        });
        found.extend(paths.filter_map(|path| words(path).next()).map(|(_, word)| word.to_owned()));
    }
    found
}

/// The modules that each top-level module imports from.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources();
    let modules: BTreeSet<String> = sources.iter().map(Source::module).filter(|module| module != "lib").collect();
    let mut graph: BTreeMap<_, BTreeSet<String>> = modules.iter().map(|m| (m.clone(), BTreeSet::new())).collect();
    for source in sources.iter().filter(|source| !source.is_test()) {
        if let Some(edges) = graph.get_mut(&source.module()) {
            edges.extend(imports(&source.code).into_iter().filter(|m| modules.contains(m) && *m != source.module()));
        }
    }
    graph
}

#[test]
fn modules_import_from_one_another_without_cycles() {
    let mut graph = graph();
    assert!(graph["fit"].contains("step"), "imports are found");
    // A module that imports nothing that is left is not on a cycle.
    while let Some(done) = graph.iter().find(|(_, edges)| edges.is_empty()).map(|(module, _)| module.clone()) {
        graph.remove(&done);
        graph.values_mut().for_each(|edges| _ = edges.remove(&done));
    }
    assert!(graph.is_empty(), "on a cycle, or above one: {graph:#?}");
}

#[test]
fn modules_import_in_one_direction() {
    let place = |module: &str| ORDER.iter().position(|&m| m == module);
    for (module, edges) in graph() {
        for edge in edges {
            if let (Some(from), Some(to)) = (place(&module), place(&edge)) {
                assert!(to < from, "{module} imports from {edge}");
            }
        }
    }
}

#[test]
fn functions_fit_a_screen() {
    let mut long = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (at, _) in words(&source.code).filter(|(_, word)| *word == "fn") {
            if let Some((_, end)) = body(&source.code, at) {
                let lines = source.code[at..end].lines().count();
                if lines > MOST_LINES_OF_A_FUNCTION {
                    let name = words(&source.code[at..]).nth(1).map_or("", |(_, name)| name);
                    long.push(format!("{}: {name} has {lines} lines", source.path.display()));
                }
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn files_are_short() {
    let long: Vec<String> = (sources().iter())
        .map(|source| (source.path.display().to_string(), source.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{path} has {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn unsafe_code_is_only_in_the_kernels() {
    for source in sources() {
        let count = words(&source.code).filter(|(_, word)| *word == "unsafe").count();
        assert!(count == 0 || source.module() == "kernel", "{} has unsafe code", source.path.display());
    }
}

#[test]
fn the_scanner_sees_only_code() {
    let text = "use crate::{a, b::{c, d}, e};\nfn f<'a>(x: [u8; 2]) -> char {\n    // { crate::no\n    \"}\\\"\"; '}'\n}\n\
                #[cfg(test)]\nmod tests {\n    use crate::no;\n}\n#[cfg(test)]\nuse crate::no;\nfn g() {}\n";
    let code = without_tests(&without_comments(text));
    assert_eq!(code.lines().count(), text.lines().count());
    assert_eq!(imports(&code), ["a", "b", "e"].map(str::to_owned).into());
    let functions: Vec<usize> = words(&code).filter(|(_, word)| *word == "fn").map(|(at, _)| at).collect();
    let lines = functions.iter().map(|&at| code[at..body(&code, at).unwrap().1].lines().count());
    assert_eq!(lines.collect::<Vec<_>>(), [4, 1]);
}
