//! Regression corpus: a graph that failed once with its feeds, as the text of a `.graph` file.
//!
//! ```text
//! // What was wrong.
//! graph "step" {
//!   …
//! }
//! graph "inputs" {
//!   %0 = const [0.5, -1.0] : f32[2]
//!   return "x" = %0
//! }
//! graph "state" {
//!   %0 = const 3.0 : f32
//!   return "w" = %0
//! }
//! ```
//!
//! The feeds are constants in the textual form of graphs, which round-trips every value; of a NaN it keeps neither sign nor payload.

use std::fmt;

use trainspec_ir::build::Builder;
use trainspec_ir::graph::{Graph, NodeKind};
use trainspec_ir::{Tensor, text};

use crate::feeds::Feeds;

/// A graph that failed once, and its feeds.
#[derive(Debug, Clone)]
pub struct Regression {
    /// What was wrong.
    pub comment: String,
    /// The graph.
    pub graph: Graph,
    /// Its inputs and its state at the start.
    pub feeds: Feeds,
}

impl Regression {
    /// Parses the text of a `.graph` file.
    ///
    /// # Errors
    ///
    /// When the text has no comment, is no list of three graphs, or feeds other types than the graph has.
    pub fn parse(text: &str) -> Result<Regression, String> {
        let mut sections: Vec<String> = vec![String::new()];
        for line in text.lines() {
            if line.starts_with("graph ") {
                sections.push(String::new());
            }
            let section = sections.last_mut().expect("there is one from the start");
            section.push_str(line);
            section.push('\n');
        }
        let [comment, graph, inputs, state] = &sections[..] else {
            return Err("a comment, the graph, its inputs and its state are expected".to_owned());
        };
        let comment: Vec<&str> = comment
            .lines()
            .map(|line| line.trim_start_matches("//").trim())
            .collect();
        let comment = comment.join("\n").trim().to_owned();
        if comment.is_empty() {
            return Err("a comment must say what was wrong".to_owned());
        }
        let parse = |text: &str| text::parse(text).map_err(|e| e.to_string());
        let graph = parse(graph)?;
        let feeds = Feeds {
            inputs: constants(&parse(inputs)?)?.into_iter().collect(),
            state: constants(&parse(state)?)?
                .into_iter()
                .map(|(_, tensor)| tensor)
                .collect(),
        };
        for (name, v) in graph.inputs() {
            let found = feeds.inputs.get(name).map(Tensor::ty);
            if found.as_ref() != Some(graph.ty(v)) {
                return Err(format!("`{name}` is {}, but fed {found:?}", graph.ty(v)));
            }
        }
        let expected = graph.state.iter().map(|piece| &piece.ty);
        let found: Vec<_> = feeds.state.iter().map(Tensor::ty).collect();
        if !expected.eq(&found) {
            return Err(format!("the state has other types than {found:?}"));
        }
        Ok(Regression {
            comment,
            graph,
            feeds,
        })
    }
}

impl fmt::Display for Regression {
    /// The text of a `.graph` file, which [`Regression::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.comment.lines() {
            writeln!(f, "{}", format!("// {line}").trim_end())?;
        }
        let inputs = self
            .graph
            .inputs()
            .map(|(name, _)| (name, &self.feeds.inputs[name]));
        let names = self.graph.state.iter().map(|piece| piece.name.as_str());
        let state = names.zip(&self.feeds.state);
        write!(
            f,
            "{}{}{}",
            self.graph,
            constant_graph("inputs", inputs),
            constant_graph("state", state)
        )
    }
}

/// A graph whose results are these constants.
fn constant_graph<'a>(name: &str, tensors: impl Iterator<Item = (&'a str, &'a Tensor)>) -> Graph {
    let b = Builder::new(name);
    for (name, tensor) in tensors {
        b.result(name, b.constant(tensor.clone()));
    }
    b.finish()
}

/// The results of a graph of constants.
fn constants(graph: &Graph) -> Result<Vec<(String, Tensor)>, String> {
    let constant = |(name, v): &(String, _)| {
        let node = graph.nodes.iter().find(|node| node.results.contains(v));
        match node.map(|node| &node.kind) {
            Some(NodeKind::Const(tensor)) => Ok((name.clone(), tensor.clone())),
            _ => Err(format!("`{name}` is no constant")),
        }
    };
    graph.results.iter().map(constant).collect()
}

#[cfg(test)]
mod tests {
    use trainspec_ir::DType;
    use trainspec_ir::graph::Type;

    use super::*;
    use crate::feeds::feeds;
    use crate::mixed;
    use crate::search::Search;

    #[test]
    fn special_values_round_trip() {
        let b = Builder::new("g");
        let x = b.input("x", &Type::new(DType::F32, &[7]));
        let w = b.read("w", &Type::new(DType::F64, &[]));
        b.result("y", x + 1.0);
        b.result("z", w);
        let graph = b.finish();
        let special = [
            0.1,
            -0.0,
            f32::INFINITY,
            f32::NAN,
            1e-45,
            f32::MAX,
            1.0 / 3.0,
        ];
        let feeds = Feeds {
            inputs: [("x".to_owned(), Tensor::new(&[7], special.to_vec()))].into(),
            state: vec![Tensor::scalar(std::f64::consts::PI)],
        };
        let comment = "Something.\n\nMore of it.".to_owned();
        let before = Regression {
            comment,
            graph,
            feeds,
        };
        let after = Regression::parse(&before.to_string()).unwrap();
        assert_eq!(after.comment, before.comment);
        assert_eq!(after.graph.to_string(), before.graph.to_string());
        let bits = |r: &Regression| -> Vec<u32> {
            let values = r.feeds.inputs["x"].values::<f32>().unwrap();
            values.iter().map(|x| x.to_bits()).collect()
        };
        assert_eq!(bits(&after), bits(&before));
        assert_eq!(after.feeds.state, before.feeds.state);
    }

    #[test]
    fn random_graphs_round_trip() {
        for number in 0..100 {
            let graph = mixed::make(&Search { seed: 1 }.bytes(number));
            let feeds = feeds(&graph, number);
            let comment = "None.".to_owned();
            let before = Regression {
                comment,
                graph,
                feeds,
            };
            let after = Regression::parse(&before.to_string()).unwrap();
            assert_eq!(after.to_string(), before.to_string());
        }
    }

    #[test]
    fn mistakes_are_reported() {
        let graph = "graph \"g\" {\n  %0 = input \"x\" : f32\n}\n";
        let inputs = "graph \"inputs\" {\n  %0 = const 1.0 : f64\n  return \"x\" = %0\n}\n";
        let state = "graph \"state\" {\n}\n";
        let refused = |text: &str| Regression::parse(text).map(|r| r.comment).unwrap_err();
        assert!(refused(&format!("{graph}{inputs}{state}")).contains("what was wrong"));
        assert!(refused(&format!("// It.\n{graph}{inputs}")).contains("are expected"));
        assert!(refused(&format!("// It.\n{graph}{inputs}{state}")).contains("`x` is f32"));
    }
}
