//! The space of a hyperparameter search: which constants vary, and over what (grid search, random search).
//!
//! In: the texts of `--grid` and `--sample`, and the constants of a spec. Out: for each trial, by its ordinal, a value of every constant that
//! varies. Leaves alone: what a value means, which is decided by the check of the spec with it.

use serde_json::{Value, json};
use trainspec_compiler::diag::nearest;

use super::draw::{Draw, Range};
use crate::failure::Failure;

/// The most trials of a sweep.
pub(super) const MAX_TRIALS: u64 = 10_000;

/// A constant that varies.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) values: Values,
}

/// What a constant varies over.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    /// Each of these, in combination with all others.
    Grid(Vec<String>),
    /// One at random.
    Sample(Draw),
}

/// The constants that vary, and the number of trials.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Space {
    /// Grids first, then samples, each in the order of the arguments.
    pub(super) parameters: Vec<Parameter>,
    pub(super) seed: i64,
    pub(super) trials: usize,
}

/// What kind of value a constant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Float,
    Bool,
    Text,
    Other,
}

impl Kind {
    /// The kind of a constant by its printed value.
    fn of(printed: &str) -> Kind {
        match printed {
            "true" | "false" => Kind::Bool,
            text if text.starts_with('"') => Kind::Text,
            text if text.parse::<i64>().is_ok() => Kind::Int,
            text if text.parse::<f64>().is_ok() => Kind::Float,
            _ => Kind::Other,
        }
    }
}

impl Space {
    /// The space of a sweep over the constants of a spec, with their printed values; `fixed` are the names that `--set` gives a value.
    pub(super) fn new(
        parameters: Vec<Parameter>,
        seed: i64,
        trials: Option<u64>,
        constants: &[(String, String)],
        fixed: &[(String, String)],
    ) -> Result<Space, Failure> {
        if parameters.is_empty() {
            return Err(nothing_varies(constants));
        }
        let mut space = Space {
            parameters,
            seed,
            trials: 0,
        };
        for (i, Parameter { name, .. }) in space.parameters.iter().enumerate() {
            if fixed.iter().any(|(fixed, _)| fixed == name) {
                let message = format!("the constant `{name}` has one value, and varies");
                return Err(Failure::input(message)
                    .help(format!("leave out `--set {name}=...`, or let another vary")));
            }
            if space.parameters[..i].iter().any(|p| p.name == *name) {
                let message = format!("the constant `{name}` varies twice");
                return Err(Failure::input(message).help(format!(
                    "say all its values at once: `--grid {name}=V1,V2,...`"
                )));
            }
        }
        for parameter in &mut space.parameters {
            parameter.fit(constants)?;
        }
        space.trials = space.count(trials)?;
        Ok(space)
    }

    /// The number of points of the grid: 1 where there is none, `None` where there are more than a number holds.
    fn points(&self) -> Option<u64> {
        let sizes = self.parameters.iter().map(|p| match &p.values {
            Values::Grid(values) => values.len() as u64,
            Values::Sample(_) => 1,
        });
        sizes.into_iter().try_fold(1_u64, u64::checked_mul)
    }

    fn count(&self, given: Option<u64>) -> Result<usize, Failure> {
        let points = self.points().filter(|points| *points <= MAX_TRIALS);
        let points = points.ok_or_else(|| {
            let message = format!("the grid has more than {MAX_TRIALS} points");
            Failure::input(message)
                .help("draw from it at random: `--sample NAME=V1,V2,... --trials 100`")
        })?;
        let is_sampled = self.samples().next().is_some();
        let count = match (is_sampled, given) {
            (true, None) => {
                return Err(
                    Failure::input("`--sample` needs a number of trials").help(format!(
                        "say how many are run: `--trials {}`",
                        20.max(points)
                    )),
                );
            }
            (true, Some(trials)) if trials < points => {
                let message = format!("{trials} trials are too few: the grid has {points} points");
                return Err(Failure::input(message).help(format!(
                    "`--trials` counts all trials of the sweep: `--trials {points}` draws once for each point of the grid"
                )));
            }
            (true, Some(trials)) => trials,
            (false, Some(trials)) if trials != points => {
                let message = format!("the grid has {points} points, and not {trials} trials");
                return Err(Failure::input(message)
                    .help("leave out `--trials`, or draw at random: `--sample NAME=V1,V2,...`"));
            }
            (false, _) => points,
        };
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn samples(&self) -> impl Iterator<Item = &Draw> {
        self.parameters.iter().filter_map(|p| match &p.values {
            Values::Sample(draw) => Some(draw),
            Values::Grid(_) => None,
        })
    }

    /// The values of a trial, by name: the points of the grid in turn, the last constant fastest, and draws of its own. What is not the number
    /// of trials decides them, so that more trials are the same and others after them.
    pub(super) fn values(&self, trial: usize) -> Vec<(String, String)> {
        let points = usize::try_from(self.points().unwrap_or(1)).unwrap_or(1);
        let mut rest = trial % points.max(1);
        let mut values: Vec<(String, String)> = Vec::with_capacity(self.parameters.len());
        for Parameter { name, values: over } in self.parameters.iter().rev() {
            let value = match over {
                Values::Grid(all) => {
                    let value = all[rest % all.len()].clone();
                    rest /= all.len();
                    value
                }
                Values::Sample(draw) => draw.value(self.seed, trial, name),
            };
            values.push((name.clone(), value));
        }
        values.reverse();
        values
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.parameters.iter().map(|p| p.name.as_str()).collect()
    }

    /// What decides the values of a trial, for the record of the sweep.
    pub(super) fn to_json(&self) -> Value {
        let mut object = serde_json::Map::new();
        for Parameter { name, values } in &self.parameters {
            object.insert(name.clone(), json!(values.text()));
        }
        let order = json!(self.names());
        json!({ "constants": object, "order": order, "seed": self.seed })
    }
}

impl Parameter {
    /// Fits a range to the constant: draws of an integer are integers. Fails where there is no such constant, or no value that can vary.
    fn fit(&mut self, constants: &[(String, String)]) -> Result<(), Failure> {
        let name = &self.name;
        let Some((_, printed)) = constants.iter().find(|(known, _)| known == name) else {
            return Err(unknown(name, constants));
        };
        let kind = Kind::of(printed);
        if kind == Kind::Other {
            let message =
                format!("the constant `{name}` is {printed}, which is no number, bool or string");
            return Err(Failure::input(message).help("only those can vary in a sweep"));
        }
        let Values::Sample(Draw::Range(range)) = &mut self.values else {
            return Ok(());
        };
        match kind {
            Kind::Float => Ok(()),
            Kind::Int if range.has_integer_bounds() => {
                range.is_int = true;
                Ok(())
            }
            Kind::Int => {
                let message = format!(
                    "the constant `{name}` is an integer, and {} has other bounds",
                    range.bounds()
                );
                Err(Failure::input(message).help(format!("such as `--sample {name}=1..10`")))
            }
            _ => {
                let message = format!(
                    "the constant `{name}` is {printed}, and {} is a range of numbers",
                    range.bounds()
                );
                Err(Failure::input(message)
                    .help(format!("list its values: `--sample {name}=V1,V2,...`")))
            }
        }
    }
}

impl Values {
    /// The text of the argument, in one spelling.
    pub(super) fn text(&self) -> String {
        match self {
            Values::Grid(values) => format!("grid {}", values.join(",")),
            Values::Sample(Draw::Choice(values)) => format!("sample {}", values.join(",")),
            Values::Sample(Draw::Range(range)) => format!("sample {}", range.text()),
        }
    }
}

fn unknown(name: &str, constants: &[(String, String)]) -> Failure {
    let failure = Failure::input(format!("the spec has no constant `{name}`"));
    let known: Vec<&str> = constants.iter().map(|(name, _)| name.as_str()).collect();
    failure.help(match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => no_constants(),
        None => format!("its constants are {}", known.join(", ")),
    })
}

fn nothing_varies(constants: &[(String, String)]) -> Failure {
    let can_vary = constants
        .iter()
        .filter(|(_, value)| Kind::of(value) != Kind::Other);
    let names: Vec<&str> = can_vary.map(|(name, _)| name.as_str()).collect();
    Failure::input("nothing varies: neither `--grid` nor `--sample` is given").help(match &names[..] {
        [] => no_constants(),
        [first, ..] => format!(
            "its constants are {}: `--grid {first}=V1,V2` or `--sample {first}=LOW..HIGH --trials 20`",
            names.join(", ")
        ),
    })
}

fn no_constants() -> String {
    "it has no constants: `const LR = 0.1;` declares one, to use in place of the number".to_owned()
}

/// Parses `NAME=V1,V2,...` of a grid.
pub(super) fn grid(text: &str) -> Result<Parameter, String> {
    let form = "write NAME=V1,V2,..., such as LR=0.1,0.01";
    let (name, values) = named(text).ok_or(form)?;
    Ok(Parameter {
        name,
        values: Values::Grid(list(values)?),
    })
}

/// Parses `NAME=LOW..HIGH[:log][:int]` or `NAME=V1,V2,...` of a sample.
pub(super) fn sample(text: &str) -> Result<Parameter, String> {
    let form =
        "write NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=V1,V2,..., such as LR=1e-4..1e-1:log";
    let (name, values) = named(text).ok_or(form)?;
    let values = match list(values)? {
        values if values.len() > 1 => Draw::Choice(values),
        values => match Range::parse(&values[0]) {
            Some(range) => Draw::Range(range?),
            None => return Err(form.to_owned()),
        },
    };
    let values = Values::Sample(values);
    Ok(Parameter { name, values })
}

fn named(text: &str) -> Option<(String, &str)> {
    let (name, values) = text.split_once('=')?;
    let (name, values) = (name.trim(), values.trim());
    let is_given = !name.is_empty() && !values.is_empty();
    is_given.then(|| (name.to_owned(), values))
}

/// The values between commas; those in quotes may have commas in them.
fn list(text: &str) -> Result<Vec<String>, String> {
    let mut values = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            ',' if !is_quoted => {
                values.push(String::new());
                continue;
            }
            '"' if !is_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        if let Some(last) = values.last_mut() {
            last.push(c);
        }
    }
    let values: Vec<String> = values.iter().map(|v| v.trim().to_owned()).collect();
    for (i, value) in values.iter().enumerate() {
        if value.is_empty() {
            return Err("there is no value between two commas, or after the last".to_owned());
        }
        if values[..i].contains(value) {
            return Err(format!("the value {value} is given twice"));
        }
    }
    match values.len() as u64 <= MAX_TRIALS {
        true => Ok(values),
        false => Err(format!("there are more than {MAX_TRIALS} values")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(arguments: &[&str], trials: Option<u64>) -> Space {
        let parameters = arguments.iter().map(|text| match text.split_once(' ') {
            Some(("grid", text)) => grid(text).unwrap(),
            Some((_, text)) => sample(text).unwrap(),
            None => panic!("{text}"),
        });
        let constants = [("A", "1"), ("B", "0.5"), ("C", "\"x\"")];
        let constants = constants.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Space::new(parameters.collect(), 7, trials, &constants, &[]).unwrap()
    }

    #[test]
    fn the_last_constant_of_a_grid_is_the_fastest() {
        let space = space(&["grid A=1,2", "grid C=x,y,z"], None);
        let shown = |i| {
            let values: Vec<String> = space.values(i).into_iter().map(|(_, v)| v).collect();
            values.concat()
        };
        let all: Vec<String> = (0..space.trials).map(shown).collect();
        assert_eq!(all, ["1x", "1y", "1z", "2x", "2y", "2z"]);
    }

    #[test]
    fn more_trials_are_the_same_and_others_after_them() {
        let arguments = ["grid A=1,2", "sample B=0.1..0.9"];
        let (few, many) = (space(&arguments, Some(4)), space(&arguments, Some(400)));
        assert_eq!((few.trials, many.trials), (4, 400));
        for i in 0..few.trials {
            assert_eq!(few.values(i), many.values(i));
            assert_eq!(few.values(i)[0].1, ["1", "2"][i % 2]);
        }
        assert_ne!(few.values(0)[1], few.values(1)[1]);
    }

    #[test]
    fn values_in_quotes_keep_their_commas() {
        assert_eq!(list("\"a,b\", c").unwrap(), ["\"a,b\"", "c"]);
        assert_eq!(list("\"a\\\",b\",c").unwrap(), ["\"a\\\",b\"", "c"]);
        for wrong in ["a,", "a,,b", "1,1"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }
}
