//! A plot in the terminal: curves in Braille dots, coloured where the output is a terminal.

use std::io::IsTerminal;

use super::axis::label;
use super::panels::{Panel, Plot, Series};
use super::series::decimated;
use crate::columns::short_number;
use crate::output::{plain, print_line};

/// The width of a plot that nobody looks at in a terminal.
const PIPED_WIDTH: usize = 80;
/// The least and the greatest width of a plot.
const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 160;
/// The lines of a panel.
const LINES: usize = 9;
/// The columns left of the curves: a label and the axis.
const LABEL: usize = 9;

/// ANSI colours of series.
const COLOURS: [u8; 6] = [34, 33, 32, 35, 31, 36];

/// Prints a plot.
pub(super) fn draw(plot: &Plot) {
    let is_terminal = std::io::stdout().is_terminal();
    let size = terminal_size::terminal_size().filter(|_| is_terminal);
    let width = size.map_or(PIPED_WIDTH, |(width, _)| {
        usize::from(width.0).saturating_sub(1)
    });
    lines(plot, width.clamp(MIN_WIDTH, MAX_WIDTH)).for_each(print_line);
}

fn lines(plot: &Plot, width: usize) -> impl Iterator<Item = String> {
    let several = plot.runs.len() > 1;
    let mut lines = Vec::new();
    if several {
        for (i, run) in plot.runs.iter().enumerate() {
            lines.push(painted(
                &format!("{} {}", letter(i), plain(run)),
                COLOURS[i % COLOURS.len()],
            ));
        }
    } else if let [run] = plot.runs.as_slice() {
        lines.push(plain(run));
    }
    for panel in &plot.panels {
        lines.push(String::new());
        draw_panel(plot, panel, width, several, &mut lines);
    }
    let evaluates = plot
        .panels
        .iter()
        .flat_map(|p| &p.series)
        .any(|s| s.evaluation.is_some());
    let saves = plot.checkpoints.iter().any(|steps| !steps.is_empty());
    let signs = [(evaluates, "● evaluation"), (saves, "▲ checkpoint")];
    let signs: Vec<&str> = signs
        .iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, s)| *s)
        .collect();
    if !signs.is_empty() {
        lines.push(String::new());
        lines.push(format!("{:LABEL$}{}", "", signs.join("   ")));
    }
    lines.into_iter()
}

fn draw_panel(plot: &Plot, panel: &Panel, width: usize, several: bool, lines: &mut Vec<String>) {
    let columns = width - LABEL - if several { 2 } else { 0 };
    let mut canvas = Canvas::new(columns, LINES);
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut values = Vec::new();
    for series in &panel.series {
        let colour = colour(plot, series);
        match series.evaluation {
            None => canvas.line(&points(plot, panel, series, columns), colour),
            Some(_) => canvas.marks(&points(plot, panel, series, columns), colour),
        }
        if let Some(last) = series.last() {
            let name = match (several, series.evaluation) {
                (true, None) => letter(series.run).to_string(),
                (true, Some(_)) => format!("{} ●", letter(series.run)),
                (false, None) => String::new(),
                (false, Some(i)) => plain(&plot.evaluations[i]),
            };
            let value = format!("{name} {}", short_number(last));
            values.push(painted(value.trim(), colour));
            let line = (1.0 - panel.y.at(last)).clamp(0.0, 1.0) * (LINES - 1) as f64;
            if series.evaluation.is_none() && last.is_finite() {
                ends.push((line.round() as usize, series.run));
            }
        }
    }
    let log = if panel.y.is_log { " (log)" } else { "" };
    lines.push(format!(
        "{:LABEL$}{}{log}  {}",
        "",
        plain(&panel.tag),
        values.join("  ")
    ));
    let mut labels = vec![None; LINES];
    for tick in panel.y.ticks(4) {
        let line = ((1.0 - panel.y.at(tick)) * (LINES - 1) as f64).round();
        if (0.0..LINES as f64).contains(&line) {
            labels[line as usize] = Some(label(tick));
        }
    }
    for (line, name) in labels.iter().enumerate() {
        let axis = match name {
            Some(name) => format!("{name:>width$} ┤", width = LABEL - 2),
            None => format!("{:width$} │", "", width = LABEL - 2),
        };
        let here: Vec<usize> = ends
            .iter()
            .filter(|(at, _)| *at == line)
            .map(|(_, run)| *run)
            .collect();
        let mut text = axis + &canvas.text(line);
        if let (true, Some(run)) = (several, here.first()) {
            let used = canvas.width(line);
            text += &" ".repeat(columns + 1 - used);
            text += &painted(&letter(*run).to_string(), COLOURS[run % COLOURS.len()]);
        }
        lines.push(text);
    }
    lines.push(step_axis(plot, columns));
    lines.push(step_labels(plot, columns));
}

/// The axis of the steps, with the checkpoints.
fn step_axis(plot: &Plot, columns: usize) -> String {
    let mut axis = vec!['─'; columns];
    for tick in plot.x.ticks(columns / 14) {
        axis[column(plot, tick, columns)] = '┬';
    }
    for step in plot.checkpoints.iter().flatten() {
        let at = plot.x.at(*step as f64);
        if (0.0..=1.0).contains(&at) {
            axis[column(plot, *step as f64, columns)] = '▲';
        }
    }
    format!(
        "{:width$} └{}",
        "",
        axis.into_iter().collect::<String>(),
        width = LABEL - 2
    )
}

fn step_labels(plot: &Plot, columns: usize) -> String {
    let mut text = vec![' '; columns + LABEL];
    let mut free = 0;
    let last = columns + LABEL - 4;
    for tick in plot.x.ticks(columns / 14) {
        let name = label(tick);
        let middle = LABEL + column(plot, tick, columns);
        let start = middle.saturating_sub(name.len() / 2);
        if start < free || start + name.len() >= last {
            continue;
        }
        free = start + name.len() + 1;
        for (i, c) in name.chars().enumerate() {
            text[start + i] = c;
        }
    }
    for (i, c) in "step".chars().enumerate() {
        text[last + i] = c;
    }
    text.into_iter().collect()
}

fn column(plot: &Plot, step: f64, columns: usize) -> usize {
    let at = plot.x.at(step).clamp(0.0, 1.0) * (columns - 1) as f64;
    at.round() as usize
}

/// The points of a series from 0 to 1 in both directions.
fn points(plot: &Plot, panel: &Panel, series: &Series, columns: usize) -> Vec<(f64, f64)> {
    let points = decimated(series.line(), 2 * columns);
    let at = |(step, value): &(f64, f64)| (plot.x.at(*step), panel.y.at(*value));
    points.iter().map(at).collect()
}

fn colour(plot: &Plot, series: &Series) -> u8 {
    let index = match (plot.runs.len(), series.evaluation) {
        (1, Some(evaluation)) => 1 + evaluation,
        (1, None) => 0,
        _ => series.run,
    };
    COLOURS[index % COLOURS.len()]
}

/// The letter of a run: a, b, ..., and then numbers would be needed, which nobody tells apart.
fn letter(run: usize) -> char {
    char::from(b'a' + (run % 26) as u8)
}

fn painted(text: &str, colour: u8) -> String {
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

/// A grid of cells with two by four dots each.
struct Canvas {
    columns: usize,
    lines: usize,
    /// The dots of each cell, and the colour of the last.
    cells: Vec<(u8, u8)>,
    /// The characters that stand in place of dots.
    marks: Vec<Option<(char, u8)>>,
}

impl Canvas {
    fn new(columns: usize, lines: usize) -> Canvas {
        Canvas {
            columns,
            lines,
            cells: vec![(0, 0); columns * lines],
            marks: vec![None; columns * lines],
        }
    }

    /// A line through points; values that are not finite are gaps.
    fn line(&mut self, points: &[(f64, f64)], colour: u8) {
        let width = (2 * self.columns - 1) as f64;
        let height = (4 * self.lines - 1) as f64;
        let dots: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, y)| (x.clamp(0.0, 1.0) * width, (1.0 - y) * height))
            .collect();
        for pair in dots.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            if !(y0.is_finite() && y1.is_finite()) {
                continue;
            }
            let bound = |y: f64| y.clamp(-height, 2.0 * height);
            let (y0, y1) = (bound(y0), bound(y1));
            let count = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
            for i in 0..=count {
                let t = i as f64 / count as f64;
                self.dot(x0 + t * (x1 - x0), y0 + t * (y1 - y0), colour);
            }
        }
        if let [(x, y)] = dots[..] {
            self.dot(x, y, colour);
        }
    }

    fn dot(&mut self, x: f64, y: f64, colour: u8) {
        let (x, y) = (x.round(), y.round());
        if !(0.0..(4 * self.lines) as f64).contains(&y)
            || !(0.0..(2 * self.columns) as f64).contains(&x)
        {
            return;
        }
        let (x, y) = (x as usize, y as usize);
        // The dots of a Braille character: three rows of two, and a last row that was added later.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let cell = &mut self.cells[y / 4 * self.columns + x / 2];
        *cell = (cell.0 | BITS[y % 4][x % 2], colour);
    }

    fn marks(&mut self, points: &[(f64, f64)], colour: u8) {
        for (x, y) in points.iter().filter(|(_, y)| (0.0..=1.0).contains(y)) {
            let column = (x.clamp(0.0, 1.0) * (self.columns - 1) as f64).round() as usize;
            let line = ((1.0 - y) * (self.lines - 1) as f64).round() as usize;
            self.marks[line * self.columns + column] = Some(('●', colour));
        }
    }

    /// The cells of a line up to the last that shows something.
    fn width(&self, line: usize) -> usize {
        let cells = line * self.columns..(line + 1) * self.columns;
        let is_drawn = |i: &usize| self.marks[*i].is_some() || self.cells[*i].0 != 0;
        let last = cells.clone().rev().find(is_drawn);
        last.map_or(0, |i| i + 1 - cells.start)
    }

    /// A line of cells, with a colour wherever it changes.
    fn text(&self, line: usize) -> String {
        let mut text = String::new();
        let mut now = 0;
        let start = line * self.columns;
        for i in start..start + self.width(line) {
            let (c, colour) = match (self.marks[i], self.cells[i]) {
                (Some((c, colour)), _) => (c, colour),
                (None, (0, _)) => (' ', now),
                (None, (dots, colour)) => (
                    char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
                    colour,
                ),
            };
            if colour != now {
                text += &format!("\u{1b}[{colour}m");
                now = colour;
            }
            text.push(c);
        }
        if now != 0 {
            text += "\u{1b}[0m";
        }
        text
    }
}
