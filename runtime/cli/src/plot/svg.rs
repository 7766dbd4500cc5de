//! A plot as an SVG picture: panels in a grid, with axes, curves, evaluations, checkpoints and a legend.

use std::fmt::Write;

use super::axis::{Scale, label};
use super::panels::{Panel, Plot, Series};
use super::series::decimated;
use crate::columns::short_number;

/// The width of a picture.
const WIDTH: f64 = 920.0;
/// The space around everything.
const PADDING: f64 = 20.0;
/// The space between panels.
const GAP: f64 = 18.0;
/// The space left of a panel's curves, for the labels of its axis.
const LEFT: f64 = 46.0;
/// The space above a panel's curves, for its title.
const TOP: f64 = 30.0;
/// The space below a panel's curves, for the labels of the steps.
const BOTTOM: f64 = 26.0;
/// The mean width of a character of the legend.
const CHARACTER: f64 = 6.7;
/// With more dots than this a curve of an evaluation has none.
const MAX_DOTS: usize = 60;

const TEXT: &str = "#1f2937";
const FAINT_TEXT: &str = "#6b7280";
const GRID: &str = "#eceef1";
const AXIS: &str = "#9aa1ab";

/// Colours that differ in print, too, and with the common colour blindnesses.
const COLOURS: [&str; 8] = [
    "#2563eb", "#e8590c", "#0d9276", "#9333ea", "#d6336c", "#0891b2", "#a16207", "#475569",
];

/// The picture of a plot.
pub(super) fn picture(plot: &Plot, title: Option<&str>) -> String {
    let legend = legend(plot);
    let title = title.unwrap_or(match plot.runs.as_slice() {
        [run] => run,
        _ => "",
    });
    let mut y = PADDING;
    let mut body = String::new();
    if !title.is_empty() {
        y += 14.0;
        text(&mut body, PADDING, y, "class=\"title\"", title);
        y += 10.0;
    }
    y = draw_legend(&mut body, &legend, y + 14.0) + 16.0;
    for (i, (x, width, height, at)) in places(plot.panels.len()).into_iter().enumerate() {
        draw_panel(&mut body, plot, i, &Frame::new(x, y + at, width, height));
    }
    let ends = places(plot.panels.len()).into_iter();
    let height = y + ends.map(|(_, _, h, at)| at + h).fold(0.0, f64::max) + PADDING - 8.0;
    let about = plot.panels.iter().map(|panel| panel.tag.as_str());
    let about = format!(
        "{} over steps: {}",
        about.collect::<Vec<_>>().join(", "),
        plot.runs.join(", ")
    );
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>text{{font:11px ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:{FAINT_TEXT}}}\
         .title{{font-size:16px;font-weight:600;fill:{TEXT}}}.tag{{font-size:13px;font-weight:600;fill:{TEXT}}}.key{{font-size:12px;fill:{TEXT}}}\
         .last{{font-size:12px;font-weight:600}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}\
         path{{fill:none;stroke-linejoin:round;stroke-linecap:round}}</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#fff\" stroke=\"#e3e6ea\"/>",
        escaped(&about),
        WIDTH - 1.0,
        height - 1.0
    );
    out + &body + "</svg>\n"
}

/// Of each panel: x, width, height and y from the first row on. An odd one is as wide as two.
fn places(count: usize) -> Vec<(f64, f64, f64, f64)> {
    let full = WIDTH - 2.0 * PADDING;
    let half = (full - GAP) / 2.0;
    let mut places = Vec::new();
    let mut y = 0.0;
    if count % 2 == 1 {
        let height = if count == 1 { 340.0 } else { 280.0 };
        places.push((PADDING, full, height, y));
        y += height + GAP;
    }
    for pair in 0..count / 2 {
        let at = y + pair as f64 * (230.0 + GAP);
        places.push((PADDING, half, 230.0, at));
        places.push((PADDING + half + GAP, half, 230.0, at));
    }
    places
}

/// Where the curves of a panel lie.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    title_y: f64,
}

impl Frame {
    fn new(x: f64, y: f64, width: f64, height: f64) -> Frame {
        Frame {
            left: x + LEFT,
            right: x + width - 8.0,
            top: y + TOP,
            bottom: y + height - BOTTOM,
            title_y: y + 15.0,
        }
    }

    fn x(&self, scale: &Scale, step: f64) -> f64 {
        self.left + scale.at(step) * (self.right - self.left)
    }

    fn y(&self, scale: &Scale, value: f64) -> f64 {
        // Values far outside stay near, so that lines leave in their direction.
        self.bottom - scale.at(value).clamp(-1.0, 2.0) * (self.bottom - self.top)
    }
}

/// A sign of the legend.
enum Sign {
    Line,
    Dots,
    Triangle,
    Pale,
}

fn legend(plot: &Plot) -> Vec<(Sign, &'static str, String)> {
    let mut items = Vec::new();
    let has = |f: fn(&Series) -> bool| plot.panels.iter().flat_map(|p| &p.series).any(f);
    match plot.runs.len() {
        1 => {
            if has(|s| s.evaluation.is_none()) {
                items.push((Sign::Line, COLOURS[0], "training".to_owned()));
            }
            for (i, name) in plot.evaluations.iter().enumerate() {
                let name = match name.as_str() {
                    "eval" => "evaluation".to_owned(),
                    name => format!("evaluation {name}"),
                };
                items.push((Sign::Dots, COLOURS[(1 + i) % COLOURS.len()], name));
            }
        }
        _ => {
            for (i, run) in plot.runs.iter().enumerate() {
                items.push((Sign::Line, COLOURS[i % COLOURS.len()], run.clone()));
            }
            if has(|s| s.evaluation.is_some()) {
                items.push((Sign::Dots, FAINT_TEXT, "evaluation".to_owned()));
            }
        }
    }
    if has(|s| s.smooth.is_some()) {
        let colour = if plot.runs.len() == 1 {
            COLOURS[0]
        } else {
            FAINT_TEXT
        };
        items.push((Sign::Pale, colour, "not smoothed".to_owned()));
    }
    if plot.checkpoints.iter().any(|steps| !steps.is_empty()) {
        items.push((Sign::Triangle, FAINT_TEXT, "checkpoint".to_owned()));
    }
    items
}

/// Draws the legend from a line on; the y of its last line.
fn draw_legend(out: &mut String, items: &[(Sign, &'static str, String)], mut y: f64) -> f64 {
    let mut x = PADDING;
    for (sign, colour, name) in items {
        let width = 26.0 + name.chars().count() as f64 * CHARACTER;
        if x + width > WIDTH - PADDING && x > PADDING {
            x = PADDING;
            y += 18.0;
        }
        let (from, to, middle) = (x, x + 18.0, y - 4.0);
        let _ = match sign {
            Sign::Line => writeln!(
                out,
                "<path d=\"M{from} {middle}H{to}\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
            ),
            Sign::Pale => writeln!(
                out,
                "<path d=\"M{from} {middle}H{to}\" stroke=\"{colour}\" stroke-width=\"1.5\" opacity=\"0.35\"/>"
            ),
            Sign::Dots => writeln!(
                out,
                "<path d=\"M{from} {middle}H{to}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
                 <circle cx=\"{}\" cy=\"{middle}\" r=\"3.2\" fill=\"{colour}\"/>",
                x + 9.0
            ),
            Sign::Triangle => writeln!(out, "{}", triangle(x + 9.0, middle + 3.5, colour)),
        };
        text(out, x + 24.0, y, "class=\"key\"", name);
        x += width + 16.0;
    }
    y
}

fn draw_panel(out: &mut String, plot: &Plot, index: usize, frame: &Frame) {
    let panel = &plot.panels[index];
    let _ = writeln!(
        out,
        "<clipPath id=\"c{index}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
        round(frame.left),
        round(frame.top - 2.0),
        round(frame.right - frame.left + 4.0),
        round(frame.bottom - frame.top + 2.0)
    );
    text(out, frame.left, frame.title_y, "class=\"tag\"", &panel.tag);
    if panel.y.is_log {
        let x = frame.left + panel.tag.chars().count() as f64 * 7.6 + 8.0;
        text(out, x, frame.title_y, "", "log scale");
    }
    draw_axes(out, plot, panel, frame);
    draw_last_values(out, plot, panel, frame);
    let columns = (frame.right - frame.left) as usize;
    let _ = writeln!(out, "<g clip-path=\"url(#c{index})\">");
    let order = |s: &&Series| s.evaluation.is_some();
    let (evaluations, training): (Vec<&Series>, Vec<&Series>) =
        panel.series.iter().partition(order);
    for series in training.iter().filter(|s| s.smooth.is_some()) {
        let d = path(&decimated(&series.raw, columns), plot, panel, frame);
        let colour = colour(plot, series);
        let _ = writeln!(
            out,
            "<path d=\"{d}\" stroke=\"{colour}\" opacity=\"0.25\"/>"
        );
    }
    for series in training {
        let d = path(&decimated(series.line(), columns), plot, panel, frame);
        let colour = colour(plot, series);
        let _ = writeln!(
            out,
            "<path d=\"{d}\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }
    for series in evaluations {
        draw_evaluation(out, plot, panel, series, frame);
    }
    out.push_str("</g>\n");
    for (run, steps) in plot.checkpoints.iter().enumerate() {
        let colour = match plot.runs.len() {
            1 => FAINT_TEXT,
            _ => COLOURS[run % COLOURS.len()],
        };
        for step in steps {
            let x = frame.x(&plot.x, *step as f64);
            if (frame.left - 0.5..=frame.right + 0.5).contains(&x) {
                let _ = writeln!(out, "{}", triangle(x, frame.bottom, colour));
            }
        }
    }
}

fn draw_axes(out: &mut String, plot: &Plot, panel: &Panel, frame: &Frame) {
    let count = ((frame.bottom - frame.top) / 42.0) as usize;
    let mut grid = String::new();
    for tick in panel.y.ticks(count) {
        let y = frame.y(&panel.y, tick);
        let _ = write!(
            grid,
            "M{} {}H{}",
            round(frame.left),
            round(y),
            round(frame.right)
        );
        text(
            out,
            frame.left - 8.0,
            y + 3.5,
            "class=\"end\"",
            &label(tick),
        );
    }
    for tick in plot.x.ticks(((frame.right - frame.left) / 90.0) as usize) {
        let x = frame.x(&plot.x, tick);
        let _ = write!(
            grid,
            "M{} {}V{}",
            round(x),
            round(frame.top),
            round(frame.bottom)
        );
        // The word `step` stands at the end.
        if x < frame.right - 44.0 {
            text(
                out,
                x,
                frame.bottom + 16.0,
                "class=\"middle\"",
                &label(tick),
            );
        }
    }
    text(
        out,
        frame.right,
        frame.bottom + 16.0,
        "class=\"end\"",
        "step",
    );
    let _ = writeln!(out, "<path d=\"{grid}\" stroke=\"{GRID}\"/>");
    let _ = writeln!(
        out,
        "<path d=\"M{} {}H{}\" stroke=\"{AXIS}\"/>",
        round(frame.left),
        round(frame.bottom),
        round(frame.right)
    );
}

/// The last value of each series, right of the title, as far as there is space.
fn draw_last_values(out: &mut String, plot: &Plot, panel: &Panel, frame: &Frame) {
    let mut x = frame.right;
    let least = frame.left + panel.tag.chars().count() as f64 * 8.0 + 70.0;
    for series in panel.series.iter().rev() {
        let Some(last) = series.last() else { continue };
        let shown = short_number(last);
        let width = shown.chars().count() as f64 * 7.2 + 10.0;
        if x - width < least {
            break;
        }
        let style = format!("class=\"last end\" style=\"fill:{}\"", colour(plot, series));
        text(out, x, frame.title_y, &style, &shown);
        x -= width;
    }
}

fn draw_evaluation(out: &mut String, plot: &Plot, panel: &Panel, series: &Series, frame: &Frame) {
    let colour = colour(plot, series);
    let d = path(&series.raw, plot, panel, frame);
    let dashes = if plot.runs.len() > 1 {
        " stroke-dasharray=\"5 4\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<path d=\"{d}\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes}/>"
    );
    if series.raw.len() <= MAX_DOTS {
        for (step, value) in series.raw.iter().filter(|(_, value)| value.is_finite()) {
            let (x, y) = (frame.x(&plot.x, *step), frame.y(&panel.y, *value));
            let _ = writeln!(
                out,
                "<circle cx=\"{}\" cy=\"{}\" r=\"3.2\" fill=\"{colour}\" stroke=\"#fff\"/>",
                round(x),
                round(y)
            );
        }
    }
}

fn colour(plot: &Plot, series: &Series) -> &'static str {
    let index = match (plot.runs.len(), series.evaluation) {
        (1, Some(evaluation)) => 1 + evaluation,
        (1, None) => 0,
        _ => series.run,
    };
    COLOURS[index % COLOURS.len()]
}

/// The line through points; it begins again after a value that is not finite.
fn path(points: &[(f64, f64)], plot: &Plot, panel: &Panel, frame: &Frame) -> String {
    let mut d = String::new();
    let mut is_drawing = false;
    for (step, value) in points {
        if !value.is_finite() {
            is_drawing = false;
            continue;
        }
        let command = if is_drawing { 'L' } else { 'M' };
        let (x, y) = (frame.x(&plot.x, *step), frame.y(&panel.y, *value));
        let _ = write!(d, "{command}{} {}", round(x), round(y));
        // A point alone is a dot, by the round caps of lines.
        if !is_drawing && points.len() == 1 {
            d.push_str("h0");
        }
        is_drawing = true;
    }
    d
}

fn triangle(x: f64, bottom: f64, colour: &str) -> String {
    format!(
        "<path d=\"M{} {}l4.5 8h-9z\" style=\"fill:{colour}\" stroke=\"#fff\" stroke-width=\"0.8\"/>",
        round(x),
        round(bottom - 8.0)
    )
}

fn text(out: &mut String, x: f64, y: f64, style: &str, text: &str) {
    let (x, y) = (round(x), round(y));
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" {style}>{}</text>",
        escaped(text)
    );
}

/// A coordinate with one decimal place.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// Text as XML has it; what a picture cannot show is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
