//! The ratios as bars, as SVG.

use std::fmt::Write;

use crate::report::Figure;

const WIDTH: f64 = 960.0;
/// Where the bars begin and end; left of it stand the names, right of it the numbers.
const LEFT: f64 = 470.0;
const RIGHT: f64 = 890.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;

/// From the ratio 1 to the right what is faster, to the left what is slower, by doublings: twice as fast is as long as half
/// as fast. A line through a bar's end goes from the lowest to the highest.
pub(crate) fn draw(figures: &[&Figure]) -> String {
    let bars: Vec<&&Figure> = figures.iter().filter(|figure| figure.micros.is_some()).collect();
    let (low, high) = bars.iter().fold((-1.0_f64, 1.0_f64), |(low, high), figure| {
        (low.min(figure.spread.low.log2().floor()), high.max(figure.spread.high.log2().ceil()))
    });
    let x = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio.log2() - low) / (high - low);
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let height = TOP + ROW * bars.len() as f64 + 16.0;

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"16\">Speed against the base, a doubling a step: right of the line is faster</text>\n"
    );
    let mut step = low;
    while step <= high {
        let (at, one) = (x(step.exp2()), step == 0.0);
        let label = if step < 0.0 { format!("1/{}", (-step).exp2()) } else { step.exp2().to_string() };
        let stroke = if one { "stroke=\"#222\" stroke-width=\"1.5\"" } else { "stroke=\"#ddd\"" };
        add(&mut svg, format_args!("<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{label}</text>", TOP - 12.0));
        add(&mut svg, format_args!("<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" {stroke}/>", TOP - 6.0, height - 10.0));
        step += 1.0;
    }
    let mut top = TOP;
    for figure in bars {
        let (from, to) = (x(figure.spread.median.min(1.0)), x(figure.spread.median.max(1.0)));
        let color = if figure.spread.median < 1.0 { "#c98a5b" } else { "#5b8dc9" };
        let middle = top + ROW / 2.0;
        let about = escaped(figure.about);
        add(&mut svg, format_args!("<text x=\"16\" y=\"{:.1}\" font-size=\"12\">{about}</text>", middle + 4.0));
        let bar = format_args!("y=\"{:.1}\" height=\"{:.1}\"", top + 5.0, ROW - 10.0).to_string();
        add(&mut svg, format_args!("<rect x=\"{from:.1}\" width=\"{:.1}\" {bar} fill=\"{color}\"/>", to - from));
        let (low, high) = (x(figure.spread.low), x(figure.spread.high));
        add(&mut svg, format_args!("<line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>"));
        let number = figure.spread.median;
        add(&mut svg, format_args!("<text x=\"{:.1}\" y=\"{:.1}\">{number:.2}</text>", RIGHT + 16.0, middle + 4.0));
        top += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

fn add(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{line}");
}

/// For markdown a name of code stands between backticks.
fn escaped(text: &str) -> String {
    text.replace('`', "").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
