//! What a spec makes of the columns of a table: which is predicted and how, which are numbers or categories, and which are left out
//! (feature engineering).
//!
//! In: a profile and the name of the target. Out: features. Leaves alone: how a spec says it.

use std::collections::{BTreeMap, HashSet};

use crate::failure::Failure;
use crate::new::column::{Column, Kind};
use crate::new::counted;
use crate::new::names::{identifier, unique};
use crate::new::profile::Table;

/// The most classes.
const MAX_CLASSES: usize = 1_000;

/// The most words of a category that becomes a vector of zeros and a one.
const MAX_ONE_HOT: u64 = 32;

/// The most words of a vocabulary; more are hashed.
const MAX_VOCABULARY: u64 = 10_000;

/// The most columns of numbers that are features of their own; more are packed.
const MAX_SCALAR_NUMBERS: usize = 12;

/// The largest integer up to which an f32 has all of them.
const MAX_EXACT_F32: u64 = 1 << 24;

/// The columns that an error names.
const MAX_NAMED_COLUMNS: usize = 12;

/// The records that are needed.
const MIN_RECORDS: u64 = 10;

/// The fewest values of a column, so that the records of the training have some of them.
const MIN_VALUES: u64 = 5;

/// The names that data sets and models of a spec have for themselves.
const OWN_NAMES: [&str; 19] = [
    "numbers",
    "no_numbers",
    "complete",
    "partial",
    "no_partial",
    "x",
    "h",
    "logits",
    "guess",
    "guessed",
    "accuracy",
    "absolute_error",
    "probabilities",
    "table",
    "train_set",
    "test_set",
    "lr",
    "train",
    "eval",
];

/// The columns of a table as a spec uses them.
#[derive(Default)]
pub(super) struct Features<'t> {
    pub(super) all: Vec<Feature<'t>>,
    /// Columns that the spec does not use, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// What else there is to know of columns.
    pub(super) notes: Vec<String>,
}

/// A feature of the spec.
pub(super) struct Feature<'t> {
    pub(super) name: String,
    /// The feature that says where it is missing.
    pub(super) missing_name: Option<String>,
    /// Those whose numbers it packs; one of any other.
    pub(super) columns: Vec<&'t Column>,
    pub(super) role: Role,
}

pub(super) enum Role {
    Number,
    Category(Category),
    Target,
    /// A table without a header has it, and nothing reads it.
    Unused,
}

/// How a column of words becomes numbers.
#[derive(Clone, Copy)]
pub(super) enum Category {
    OneHot(u64),
    Embedding(u64),
    Hashed,
}

/// What is predicted.
pub(super) enum Target {
    /// One of some words.
    Words(Vec<(String, u64)>),
    /// One of some integers, which are read as floats of a type: they are written with a point, or have gaps.
    Integers(Vec<(i64, u64)>, &'static str),
    /// An integer from 0 to below a number.
    Classes(usize),
    /// A number, with its mean and standard deviation.
    Number(f64, f64),
}

impl Target {
    /// The number of classes.
    pub(super) fn classes(&self) -> Option<usize> {
        match self {
            Target::Words(words) => Some(words.len()),
            Target::Integers(integers, _) => Some(integers.len()),
            Target::Classes(n) => Some(*n),
            Target::Number(..) => None,
        }
    }
}

impl Feature<'_> {
    /// Whether a model reads it.
    pub(super) fn is_input(&self) -> bool {
        match self.role {
            Role::Number | Role::Category(_) => true,
            Role::Target | Role::Unused => false,
        }
    }
}

/// The index of a column.
pub(super) fn find(table: &Table, target: &str) -> Result<usize, Failure> {
    let names = || table.columns.iter().map(|column| column.name.as_str());
    if let Some(index) = names().position(|name| name == target) {
        return match table.columns[index].name_count {
            1 => Ok(index),
            count => {
                let message = format!("the column name `{target}` occurs {}", times(count));
                Err(Failure::input(message).help("rename the others in the first line"))
            }
        };
    }
    let message = format!("there is no column `{target}`");
    if !table.header {
        let help = format!(
            "the table has no header: a column is a number from 1 to {}",
            table.columns.len()
        );
        return Err(Failure::input(message).help(help));
    }
    let near = trainspec_compiler::diag::nearest(target, names());
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let shown = table.columns.iter().take(MAX_NAMED_COLUMNS);
            let mut shown: Vec<String> = shown.map(Column::label).collect();
            if table.columns.len() > MAX_NAMED_COLUMNS {
                shown.push("...".to_owned());
            }
            format!("its columns are {}", shown.join(", "))
        }
    };
    Err(Failure::input(message).help(help))
}

fn times(count: usize) -> String {
    match count {
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

/// What is predicted of a column: a number where `regression` says so.
pub(super) fn target_of(table: &Table, index: usize, regression: bool) -> Result<Target, Failure> {
    let column = &table.columns[index];
    let label = column.label();
    if table.rows < MIN_RECORDS {
        let records = counted(table.rows, "record");
        let message = format!("the table has {records}, and a training needs {MIN_RECORDS}");
        return Err(Failure::input(message));
    }
    let number = || {
        let (mean, deviation) = column.moments();
        Ok(Target::Number(mean, deviation))
    };
    let kind = column.kind();
    if kind == Kind::Constant {
        let message = format!("{label} is constant: there is nothing to learn");
        return Err(Failure::input(message));
    }
    if column.values() < MIN_RECORDS {
        let values = counted(column.values(), "record");
        let message =
            format!("{label} has a value in {values}, and a training needs {MIN_RECORDS}");
        return Err(Failure::input(message));
    }
    if let Some(why) = column.unreadable(table.delimiter) {
        let message = format!("{label} cannot be predicted: {why}");
        return Err(Failure::input(message));
    }
    if column.is_numeric() {
        return match column.few_integers().filter(|_| !regression) {
            Some(integers) => Ok(classes_of(column, integers)),
            None => number(),
        };
    }
    if regression {
        let message = format!("{label} has words, and a regression predicts numbers");
        return Err(Failure::input(message).help("leave `--regression` out, and they are classes"));
    }
    match (kind, column.all_words()) {
        (Kind::Words, Some(mut words)) if words.len() <= MAX_CLASSES => {
            words.sort();
            Ok(Target::Words(words))
        }
        _ => {
            let message = format!(
                "{label} has another value in almost every record, which cannot be learnt as classes"
            );
            Err(Failure::input(message).help("choose a column of numbers, or of few words"))
        }
    }
}

/// The classes of a column of few integers.
fn classes_of(column: &Column, integers: Vec<(i64, u64)>) -> Target {
    let is_range = integers.iter().zip(0..).all(|((n, _), i)| *n == i);
    if is_range && column.gaps() == 0 && column.has_plain_integers() {
        return Target::Classes(integers.len());
    }
    let words: BTreeMap<String, u64> = column.all_words().into_iter().flatten().collect();
    let plain = integers.iter().map(|(n, count)| (n.to_string(), *count));
    let plain: Vec<(String, u64)> = plain.collect();
    // Otherwise the word of a class would have a point or a space in it, or a class several words.
    if plain.iter().all(|(n, count)| words.get(n) == Some(count)) {
        return Target::Words(plain);
    }
    let is_exact = integers
        .iter()
        .all(|(n, _)| n.unsigned_abs() <= MAX_EXACT_F32);
    Target::Integers(integers, if is_exact { "f32" } else { "f64" })
}

/// The features of all columns, and those that are left out.
pub(super) fn features<'t>(
    table: &'t Table,
    target: usize,
    predicted: &Target,
) -> Result<Features<'t>, Failure> {
    let mut found = Features::default();
    let columns = table.columns.iter().enumerate();
    let all: Vec<Result<Role, String>> = columns
        .map(|(i, column)| match i == target {
            true => Ok(Role::Target),
            false => role_of(table, column, predicted),
        })
        .collect();
    let used = table.columns.iter().zip(&all);
    let used = used
        .filter(|(_, role)| role.is_ok())
        .map(|(column, _)| column);
    let missing = table.missing(used);
    let mut roles = Vec::with_capacity(all.len());
    for (column, role) in table.columns.iter().zip(all) {
        let role = role.and_then(|role| match role {
            Role::Category(_) if !has_words(column, &missing) => {
                Err("nearly all of it stands for missing values in other columns".to_owned())
            }
            role => Ok(role),
        });
        if let Err(why) = &role {
            let entry = (column.label(), why.clone());
            // One for all columns of a name.
            let is_twice = column.is_named && column.name_count > 1;
            if !is_twice || !found.left_out.contains(&entry) {
                found.left_out.push(entry);
            }
        } else if let Some(odd) = column.odd_fields() {
            let label = column.label();
            found.notes.push(format!("{label}: {odd}, read as missing"));
        }
        roles.push(role.unwrap_or(Role::Unused));
    }
    let mut names: HashSet<String> = OWN_NAMES.map(str::to_owned).into();
    match table.header {
        true => found.named(&table.columns, roles, &mut names),
        false => found.in_order(&table.columns, roles, &mut names),
    }
    if !found.all.iter().any(Feature::is_input) {
        let mut shown: Vec<String> = (found.left_out.iter().take(MAX_NAMED_COLUMNS))
            .map(|(column, why)| format!("{column} is left out ({why})"))
            .collect();
        if found.left_out.len() > MAX_NAMED_COLUMNS {
            shown.push("...".to_owned());
        }
        let why = match shown.is_empty() {
            true => "there is no other".to_owned(),
            false => shown.join(", "),
        };
        let message = format!("no column is left to predict from: {why}");
        return Err(Failure::input(message));
    }
    Ok(found)
}

/// Whether a column has words beside those that stand for missing values in any column.
fn has_words(column: &Column, missing: &[String]) -> bool {
    let Some(words) = column.all_words() else {
        return true;
    };
    let is_word = |word: &str| missing.iter().all(|other| other != word.trim_ascii());
    let counts = words.iter().filter(|(word, _)| is_word(word));
    counts.map(|(_, count)| count).sum::<u64>() >= MIN_VALUES
}

/// What becomes of a column that is not predicted, or why it is left out.
fn role_of(table: &Table, column: &Column, predicted: &Target) -> Result<Role, String> {
    if column.name_count > 1 {
        return Err(match column.is_named {
            true => format!(
                "the column name {} occurs {}",
                column.label(),
                times(column.name_count)
            ),
            false => format!("{} columns have no name", column.name_count),
        });
    }
    if let Some(why) = column.unreadable(table.delimiter) {
        return Err(why);
    }
    let values = column.values();
    if values < MIN_VALUES && column.kind() != Kind::Constant {
        return Err(format!("it has {}", counted(values, "value")));
    }
    let distinct = column.distinct_words();
    let role = match column.kind() {
        // Among numbers without names, such as pixels, a constant does no harm.
        Kind::Constant if !table.header && column.is_numeric() && values >= MIN_VALUES => {
            Role::Number
        }
        Kind::Constant => return Err("it is constant".to_owned()),
        Kind::Id => return Err("it is different in each record, like an id".to_owned()),
        Kind::Text => {
            let why = "it is free text; `words` and `vocabulary` make ids of it";
            return Err(why.to_owned());
        }
        Kind::Distinct => {
            return Err(format!(
                "it has {distinct} words, most of them once; `characters` or `hash_bucket` make ids of it"
            ));
        }
        Kind::Integer | Kind::Number => Role::Number,
        Kind::Words if distinct <= MAX_ONE_HOT => Role::Category(Category::OneHot(distinct)),
        Kind::Words if distinct <= MAX_VOCABULARY => Role::Category(Category::Embedding(distinct)),
        Kind::Words => Role::Category(Category::Hashed),
        Kind::Date | Kind::Styled | Kind::Mixed => unreachable!("it is unreadable"),
    };
    // A source has one list of what is missing, for all columns.
    if let Target::Words(classes) = predicted {
        let is_class = |word: &&str| classes.iter().any(|(class, _)| class.trim_ascii() == *word);
        if let Some(word) = column.missing_words().find(is_class) {
            return Err(format!(
                "`{word}` stands for a missing number in it, and is a class to predict"
            ));
        }
    }
    Ok(role)
}

impl<'t> Features<'t> {
    fn push(
        &mut self,
        name: String,
        columns: Vec<&'t Column>,
        role: Role,
        names: &mut HashSet<String>,
    ) {
        let name = unique(name, names);
        let is_missing = matches!(role, Role::Number) && columns.iter().any(|c| c.gaps() > 0);
        self.all.push(Feature {
            missing_name: is_missing.then(|| unique(format!("no_{name}"), names)),
            name,
            columns,
            role,
        });
    }

    /// Features of columns that have names: many numbers are packed, those with gaps apart from the others.
    fn named(&mut self, columns: &'t [Column], roles: Vec<Role>, names: &mut HashSet<String>) {
        let numbers = columns.iter().zip(&roles);
        let numbers = numbers.filter(|(_, role)| matches!(role, Role::Number));
        let (partial, complete): (Vec<&Column>, Vec<&Column>) = numbers
            .map(|(column, _)| column)
            .partition(|c| c.gaps() > 0);
        let is_packed = partial.len() + complete.len() > MAX_SCALAR_NUMBERS;
        let packs = |group: &Vec<&Column>| is_packed && group.len() > 1;
        let are_both = packs(&partial) && packs(&complete);
        for (group, name) in [(&complete, "complete"), (&partial, "partial")] {
            if packs(group) {
                let name = if are_both { name } else { "numbers" };
                names.remove(name);
                names.remove(&format!("no_{name}"));
                self.push(name.to_owned(), group.clone(), Role::Number, names);
            }
        }
        for (column, role) in columns.iter().zip(roles) {
            let group = if column.gaps() > 0 {
                &partial
            } else {
                &complete
            };
            match role {
                Role::Unused => continue,
                Role::Number if packs(group) => continue,
                Role::Number | Role::Category(_) | Role::Target => {}
            }
            let name = identifier(&column.name);
            let name = name.unwrap_or_else(|| format!("column_{}", column.number));
            self.push(name, vec![column], role, names);
        }
    }

    /// Features of columns without names: numbers beside each other are one, where they have no gaps or are many.
    fn in_order(&mut self, columns: &'t [Column], roles: Vec<Role>, names: &mut HashSet<String>) {
        let numbers = roles.iter().zip(columns);
        let partial = numbers.filter(|(role, c)| matches!(role, Role::Number) && c.gaps() > 0);
        let is_packed = partial.count() > MAX_SCALAR_NUMBERS;
        let packs = |column: &Column| is_packed || column.gaps() == 0;
        let mut groups: Vec<(Role, Vec<&'t Column>)> = Vec::new();
        for (column, role) in columns.iter().zip(roles) {
            match (groups.last_mut(), &role) {
                (Some((Role::Number, group)), Role::Number) if packs(column) && packs(group[0]) => {
                    group.push(column);
                }
                (Some((Role::Unused, group)), Role::Unused) => group.push(column),
                _ => groups.push((role, vec![column])),
            }
        }
        for (role, group) in groups {
            let name = match role {
                Role::Number => "values",
                Role::Category(_) => "word",
                Role::Target => "target",
                Role::Unused => "unused",
            };
            self.push(name.to_owned(), group, role, names);
        }
    }
}
