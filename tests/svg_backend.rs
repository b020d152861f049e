//! The SVG backend as plotters and the maps use it.

use oomscope::render::svg::{Pattern, PatternKind, Svg, px};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const HATCH: Pattern = Pattern { kind: PatternKind::Hatch, ground: (0x29, 0xa8, 0x95), ink: (0, 0, 0) };

#[test]
fn shapes_carry_tooltips_patterns_and_dashes() {
    let svg = Svg::new(200, 100);
    let area = svg.backend().into_drawing_area();
    area.fill(&WHITE).unwrap();
    svg.title(Some("a <b> & \"c\"\nsecond line"));
    svg.fill(Some(HATCH));
    area.draw(&Rectangle::new([(px(10), px(10)), (px(60), px(30))], BLUE.filled())).unwrap();
    area.draw(&Polygon::new([(0, 0), (100, 0), (100, 100)], RED)).unwrap();
    svg.fill(None);
    area.draw(&Circle::new((500, 500), 40, RED.mix(0.5).filled())).unwrap();
    svg.title(None);
    svg.dash(Some((40, 20)));
    area.draw(&PathElement::new([(0, 0), (100, 0), (100, 0), (200, 0), (200, 50)], BLACK.stroke_width(12))).unwrap();

    let text = svg.finish();
    let document = roxmltree::Document::parse(&text).unwrap();
    let find = |name: &str| document.descendants().filter(|n| n.tag_name().name() == name).collect::<Vec<_>>();
    assert_eq!(document.root_element().attribute("viewBox"), Some("0 0 2000 1000"));
    assert_eq!(find("pattern").len(), 1);
    assert_eq!(find("title")[0].text(), Some("a <b> & \"c\"\nsecond line"));
    let group: Vec<_> = find("g")[0].children().filter(|n| n.is_element()).map(|n| n.tag_name().name()).collect();
    assert_eq!(group, ["title", "rect", "path", "circle"]);
    let fills: Vec<_> = find("g")[0].children().filter_map(|n| n.attribute("fill")).collect();
    assert_eq!(fills, ["url(#hatch-29a895-000000)", "url(#hatch-29a895-000000)", "#ff0000"]);
    assert_eq!(find("circle")[0].attribute("opacity"), Some("0.5"));
    let line = find("path").into_iter().find(|n| n.attribute("stroke-dasharray").is_some()).unwrap();
    assert_eq!((line.attribute("d"), line.attribute("stroke-dasharray")), (Some("M0 0h200v50"), Some("40 20")));
}

#[test]
fn an_empty_tooltip_group_is_not_written() {
    let svg = Svg::new(10, 10);
    svg.title(Some("nothing is drawn"));
    svg.title(None);
    assert!(!svg.finish().contains("<g>"));
}

#[test]
fn long_tooltips_are_cut() {
    let svg = Svg::new(10, 10);
    svg.title(Some(&"é".repeat(1_000_000)));
    svg.backend().into_drawing_area().draw(&Rectangle::new([(0, 0), (5, 5)], RED.filled())).unwrap();
    assert!(svg.finish().len() < 10_000);
}

#[test]
fn text_is_text() {
    let svg = Svg::new(100, 100);
    let area = svg.backend().into_drawing_area();
    let style = ("sans-serif", 100).into_font().transform(FontTransform::Rotate270);
    let style = TextStyle::from(style).pos(Pos::new(HPos::Center, VPos::Center));
    svg.halo(true);
    area.draw_text("<script>\u{0}", &style, (500, 500)).unwrap();
    let text = svg.finish();
    let document = roxmltree::Document::parse(&text).unwrap();
    let node = document.descendants().find(|n| n.tag_name().name() == "text").unwrap();
    assert_eq!(node.text(), Some("<script>\u{fffd}"));
    assert_eq!(node.attribute("transform"), Some("rotate(270 536 500)"));
    assert_eq!((node.attribute("text-anchor"), node.attribute("paint-order")), (Some("middle"), Some("stroke")));
    assert_eq!(area.estimate_text_size("iiii", &style).unwrap(), (98, 112));
}
