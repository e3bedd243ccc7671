//! Draws a recorded story as a self-contained SVG, for light and dark pages.

use std::fmt::Write as _;

use tidegate::RunId;

use crate::play::{Arrival, Course, Doing, Played, RECORDED, Story, seconds};

const WIDTH: u64 = 720;
/// Horizontal start and end of the time axis.
const LEFT: f64 = 92.0;
const RIGHT: f64 = 548.0;
/// Horizontal position of the column with the verdicts that callers get.
const TOLD: u64 = 566;
const ROW: u64 = 26;
const BAR: u64 = 16;

const STYLE: &str = "\
.paper{fill:#fff;stroke:#dfe4e9}text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;\
fill:#1c2630}.t{font-weight:600;font-size:14px}.c{font:12px ui-monospace,Menlo,Consolas,monospace;\
fill:#3d4853}.s{fill:#65717e;font-size:11px}.m{text-anchor:middle}.e{text-anchor:end}\
.b{font-weight:600}.in{fill:#fff;font-weight:600;text-anchor:middle}.grid{stroke:#edf0f3}\
.axis{stroke:#c3cad2;fill:none}.drop{stroke:#98a3ae;fill:none}.dot{fill:#1c2630}\
.run{fill:#2b6cd4}.hatch{stroke:#2b6cd4;stroke-width:1.6;opacity:.55}\
.wait{fill:url(#h);stroke:#2b6cd4;stroke-opacity:.45}\
.bg{fill:#fff}.open{fill:#eaf1fc;stroke:#2b6cd4;stroke-dasharray:3 3}\
.nap{stroke:#2b6cd4;stroke-width:2;stroke-dasharray:1 4;stroke-linecap:round;fill:none}\
.no{stroke:#b93a0a;fill:none;stroke-width:1.6}\
.bad{fill:#b93a0a;stroke:#fff;stroke-width:4px;paint-order:stroke}.rel{stroke-dasharray:4 3}\
.claim{fill:none;stroke:#8a6a00;stroke-width:1.6}\
@media(prefers-color-scheme:dark){.paper{fill:#14191f;stroke:#2b333c}text{fill:#e4e9ee}\
.c{fill:#bcc6d0}.s{fill:#95a1ad}.in{fill:#0c1420}.grid{stroke:#222a32}.axis{stroke:#4a5560}\
.drop{stroke:#6b7783}.dot{fill:#e4e9ee}.run{fill:#74a7ff}.hatch,.nap{stroke:#74a7ff}\
.wait,.open{stroke:#74a7ff}.bg{fill:#14191f}.open{fill:#1b293d}.no{stroke:#ff9a62}\
.bad{fill:#ff9a62;stroke:#14191f}.claim{stroke:#e0b93f}}";

/// One line of a panel: a run with its input events, or an event without a run.
pub(crate) struct Line<'a> {
    pub(crate) arrivals: Vec<&'a Arrival>,
    pub(crate) course: Option<&'a Course>,
}

/// A picture that is being drawn, from top to bottom.
struct Picture<'a> {
    story: &'a Story,
    svg: String,
    y: u64,
}

pub(crate) fn draw(story: &Story, panels: &[Played]) -> String {
    let mut picture = Picture { story, svg: String::new(), y: 26 };
    picture.put(format_args!("<text x=\"16\" y=\"26\" class=\"t\">{}</text>", story.title));
    picture.put(format_args!("<text x=\"{TOLD}\" y=\"26\" class=\"s\">the caller is told</text>"));
    for panel in panels {
        picture.panel(panel);
    }
    picture.axis();
    picture.legend(panels);
    let height = picture.y + 14;
    let told: Vec<String> = panels.iter().map(describe).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n<style>{STYLE}</style>\n\
         <defs><pattern id=\"h\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><path d=\"M0 0H6V6H0Z\" class=\"bg\"/>\
         <path d=\"M1 0V6\" class=\"hatch\"/></pattern></defs>\n\
         <rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\" class=\"paper\"/>\n{}</svg>\n",
        story.title,
        told.join("\n"),
        WIDTH - 1,
        height - 1,
        picture.svg,
    )
}

impl Picture<'_> {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.svg, "{element}").unwrap();
    }

    #[expect(clippy::cast_precision_loss, reason = "stories last seconds")]
    fn x(&self, ms: u64) -> f64 {
        let x = LEFT + (RIGHT - LEFT) * ms as f64 / self.story.until as f64;
        (x * 10.0).round() / 10.0
    }

    fn panel(&mut self, played: &Played) {
        let lines = lines(played);
        let captions = u64::try_from(played.caption.lines().count()).unwrap();
        let top = self.y + captions * 17 + 28;
        let rows = u64::try_from(lines.len() + played.claims.len()).unwrap();
        self.grid(top - 4, top + rows * ROW);
        for caption in played.caption.lines() {
            self.y += 17;
            let (y, caption) = (self.y + 2, caption.replace('&', "&amp;"));
            self.put(format_args!("<text x=\"16\" y=\"{y}\" class=\"c\">{caption}</text>"));
        }
        for (at, words) in &played.marks {
            let (x, end) = (self.x(*at), top + rows * ROW);
            self.put(format_args!("<path d=\"M{x} {top}V{end}\" class=\"claim rel\"/>"));
            let y = top - 10;
            self.put(format_args!("<text x=\"{x}\" y=\"{y}\" class=\"s m\">{words}</text>"));
        }
        self.arrivals(&lines, top);
        self.y = top;
        for line in &lines {
            self.line(line, played);
            self.y += ROW;
        }
        for (letter, from, to) in &played.claims {
            self.claim(*letter, *from, *to);
            self.y += ROW;
        }
        self.y += 6;
    }

    /// Draws the marks of the time axis, behind all other elements.
    fn grid(&mut self, from: u64, to: u64) {
        let marks = (0..=self.story.until).step_by(usize::try_from(self.story.mark).unwrap());
        let lines: Vec<String> = marks.map(|at| format!("M{} {from}V{to}", self.x(at))).collect();
        let lines = lines.concat();
        self.put(format_args!("<path d=\"{lines}\" class=\"grid\"/>"));
    }

    /// Draws the events on the top axis, each connected to the line of its run.
    fn arrivals(&mut self, lines: &[Line<'_>], top: u64) {
        let axis = top - 4;
        self.put(format_args!("<path d=\"M{LEFT} {axis}H{RIGHT}\" class=\"axis\"/>"));
        for (row, line) in lines.iter().enumerate() {
            let end = top + u64::try_from(row).unwrap() * ROW + ROW / 2;
            for arrival in &line.arrivals {
                let (x, letter, text) = (self.x(arrival.at), arrival.letter, axis - 6);
                self.put(format_args!("<path d=\"M{x} {}V{end}\" class=\"drop\"/>", axis - 3));
                self.put(format_args!(
                    "<text x=\"{x}\" y=\"{text}\" class=\"m b\">{letter}</text>"
                ));
            }
        }
    }

    fn line(&mut self, line: &Line<'_>, played: &Played) {
        let (middle, base) = (self.y + ROW / 2, self.y + ROW / 2 + 4);
        let letters: Vec<String> = line.arrivals.iter().map(|it| it.letter.to_string()).collect();
        let label = match (line.course, played.released) {
            (Some(course), Some(_)) => format!("v{}", course.version),
            _ => line.arrivals[0].label.to_owned(),
        };
        self.put(format_args!(
            "<text x=\"16\" y=\"{base}\"><tspan class=\"b\">{}</tspan> \
             <tspan class=\"s\">{label}</tspan></text>",
            letters.join(" ")
        ));
        match line.course {
            Some(course) => self.course(line, course, played),
            None => self.refused(line.arrivals[0], middle),
        }
        self.put(format_args!(
            "<text x=\"{TOLD}\" y=\"{base}\" class=\"s\">{}</text>",
            told(&line.arrivals)
        ));
    }

    fn course(&mut self, line: &Line<'_>, course: &Course, played: &Played) {
        let (top, middle) = (self.y + (ROW - BAR) / 2, self.y + ROW / 2);
        let mut named = false;
        for (doing, from, to) in &course.parts {
            let (x, end) = (self.x(*from), self.x(*to));
            let (width, text) = (((end - x) * 10.0).round() / 10.0, middle + 4);
            let bar = format!("x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{BAR}\" rx=\"3\"");
            match doing {
                Doing::Collects => self.put(format_args!("<rect {bar} class=\"open\"/>")),
                Doing::Waits => self.put(format_args!("<rect {bar} class=\"wait\"/>")),
                Doing::Sleeps => {
                    self.put(format_args!("<path d=\"M{x} {middle}H{end}\" class=\"nap\"/>"));
                }
                Doing::Runs => {
                    self.put(format_args!("<rect {bar} class=\"run\"/>"));
                    if !named {
                        let (at, carries) = (((x + end) * 5.0).round() / 10.0, &course.carries);
                        self.put(format_args!(
                            "<text x=\"{at}\" y=\"{text}\" class=\"in\">{carries}</text>"
                        ));
                    }
                    named = true;
                }
            }
        }
        for arrival in &line.arrivals {
            let x = self.x(arrival.at);
            self.put(format_args!("<circle cx=\"{x}\" cy=\"{middle}\" r=\"3\" class=\"dot\"/>"));
        }
        if let Some((at, by, reason)) = &course.cancelled {
            self.cancelled(*at, by.and_then(|run| letter_of(played, run)), reason);
        }
    }

    fn cancelled(&mut self, at: u64, by: Option<char>, reason: &str) {
        let (x, y) = (self.x(at), self.y + ROW / 2);
        let (left, right) = (x - 4.0, x + 4.0);
        let (up, down) = (y - 4, y + 4);
        self.put(format_args!(
            "<path d=\"M{left} {up}L{right} {down}M{left} {down}L{right} {up}\" class=\"no\"/>"
        ));
        let word = by.map_or(reason.to_owned(), |letter| format!("replaced by {letter}"));
        let (at, base) = (x + 10.0, y + 4);
        self.put(format_args!("<text x=\"{at}\" y=\"{base}\" class=\"s bad\">{word}</text>"));
    }

    fn refused(&mut self, arrival: &Arrival, middle: u64) {
        let (x, base) = (self.x(arrival.at), middle + 4);
        let (at, word) = (x + 10.0, arrival.outcome);
        if word == RECORDED {
            let dot = format!("cx=\"{x}\" cy=\"{middle}\" r=\"3\" class=\"dot\"");
            return self.put(format_args!("<circle {dot}/>"));
        }
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{middle}\" r=\"4.5\" class=\"paper\"/>"));
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{middle}\" r=\"4.5\" class=\"no\"/>"));
        self.put(format_args!("<text x=\"{at}\" y=\"{base}\" class=\"s bad\">{word}</text>"));
    }

    /// Draws the period for which a claim remembers its key.
    fn claim(&mut self, letter: char, from: u64, to: u64) {
        let (x, middle, base) = (self.x(from), self.y + ROW / 2, self.y + ROW / 2 + 4);
        let end = self.x(to.min(self.story.until));
        let (up, down) = (middle - 5, middle + 5);
        let cap =
            if to <= self.story.until { format!("M{end} {up}V{down}") } else { String::new() };
        self.put(format_args!(
            "<path d=\"M{x} {up}V{down}M{x} {middle}H{end}{cap}\" class=\"claim\"/>"
        ));
        self.put(format_args!("<text x=\"16\" y=\"{base}\" class=\"s\">claim of {letter}</text>"));
        let until = seconds(to);
        self.put(format_args!(
            "<text x=\"{TOLD}\" y=\"{base}\" class=\"s\">key remembered until {until}</text>"
        ));
    }

    fn axis(&mut self) {
        let y = self.y + 8;
        for at in (0..=self.story.until).step_by(usize::try_from(self.story.mark).unwrap()) {
            let (x, label) = (self.x(at), seconds(at));
            self.put(format_args!("<text x=\"{x}\" y=\"{y}\" class=\"s m\">{label}</text>"));
        }
        self.y = y;
    }

    /// Draws the legend of the symbols that occur.
    fn legend(&mut self, panels: &[Played]) {
        let runs = || panels.iter().flat_map(|panel| panel.runs.values());
        let does = |doing| runs().any(|run| run.parts.iter().any(|part| part.0 == doing));
        let (y, base) = (self.y + 26, self.y + 22);
        let middle = y - 8;
        self.put(format_args!("<circle cx=\"20\" cy=\"{middle}\" r=\"3\" class=\"dot\"/>"));
        self.put(format_args!("<text x=\"28\" y=\"{base}\" class=\"s\">event</text>"));
        let mut x = 74;
        let all = [
            (Doing::Collects, "open", "collecting"),
            (Doing::Waits, "wait", "waiting"),
            (Doing::Runs, "run", "running"),
            (Doing::Sleeps, "nap", "sleeping"),
        ];
        for (_, class, word) in all.into_iter().filter(|(doing, ..)| does(*doing)) {
            if class == "nap" {
                self.put(format_args!("<path d=\"M{x} {middle}h22\" class=\"nap\"/>"));
            } else {
                let top = middle - 5;
                self.put(format_args!(
                    "<rect x=\"{x}\" y=\"{top}\" width=\"22\" height=\"10\" rx=\"2\" class=\"{class}\"/>"
                ));
            }
            let at = x + 28;
            self.put(format_args!("<text x=\"{at}\" y=\"{base}\" class=\"s\">{word}</text>"));
            x += 46 + 6 * word.len();
        }
        self.y = y;
    }
}

/// Returns the lines of a panel, grouped by key and ordered by arrival.
pub(crate) fn lines(played: &Played) -> Vec<Line<'_>> {
    let mut lines: Vec<(Option<RunId>, Line<'_>)> = Vec::new();
    for arrival in &played.arrivals {
        let known = lines.iter_mut().find(|(run, _)| run.is_some() && *run == arrival.run);
        match known {
            Some((_, line)) => line.arrivals.push(arrival),
            None => {
                let course = arrival.run.and_then(|run| played.runs.get(&run));
                lines.push((arrival.run, Line { arrivals: vec![arrival], course }));
            }
        }
    }
    let mut lines: Vec<Line<'_>> = lines.into_iter().map(|(_, line)| line).collect();
    let first = |label: &str| played.arrivals.iter().position(|arrival| arrival.label == label);
    lines.sort_by_key(|line| first(line.arrivals[0].label));
    lines
}

/// Returns the verdicts of a line's events; a single one if all are the same.
pub(crate) fn told(arrivals: &[&Arrival]) -> String {
    let mut groups: Vec<(String, &str)> = Vec::new();
    for arrival in arrivals {
        match groups.last_mut() {
            Some((letters, told)) if *told == arrival.told => {
                letters.push(' ');
                letters.push(arrival.letter);
            }
            _ => groups.push((arrival.letter.to_string(), &arrival.told)),
        }
    }
    if let [(_, told)] = &groups[..] {
        return (*told).to_owned();
    }
    let each = groups.iter().map(|(letters, told)| format!("{letters} {told}"));
    each.collect::<Vec<_>>().join(", ")
}

fn letter_of(played: &Played, run: RunId) -> Option<char> {
    played.arrivals.iter().find(|arrival| arrival.run == Some(run)).map(|arrival| arrival.letter)
}

/// Describes the picture in words, for readers who cannot see it.
fn describe(played: &Played) -> String {
    let mut text = format!("{}:", played.caption.replace('\n', ", "));
    for (at, words) in &played.marks {
        write!(text, " At {}: {words}.", seconds(*at)).unwrap();
    }
    for line in lines(played) {
        for arrival in &line.arrivals {
            let (letter, at, told) = (arrival.letter, seconds(arrival.at), &arrival.told);
            write!(text, " {letter} comes at {at} and is told {told}.").unwrap();
        }
        let Some(course) = line.course else { continue };
        for (doing, from, to) in &course.parts {
            let (from, to) = (seconds(*from), seconds(*to));
            match doing {
                Doing::Runs => {
                    write!(text, " The run of {} runs from {from} to {to}.", course.carries)
                }
                Doing::Waits => write!(text, " It waits from {from} to {to}."),
                Doing::Sleeps => write!(text, " It sleeps from {from} to {to}."),
                Doing::Collects => write!(text, " It collects from {from} to {to}."),
            }
            .unwrap();
        }
        if let Some((at, by, reason)) = &course.cancelled {
            let word = match (by, reason.as_str()) {
                (Some(_), _) => "is replaced",
                (None, "expired") => "expires",
                (None, "displaced") => "is displaced",
                (None, _) => "is cancelled",
            };
            write!(text, " It {word} at {}.", seconds(*at)).unwrap();
        }
    }
    text.replace('&', "&amp;").replace('<', "&lt;")
}
