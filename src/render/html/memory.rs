//! How the reserved memory divides.

use maud::{Markup, html};

use super::cells::{hex, plain, swatch};
use crate::analysis::report::DeviceReport;
use crate::render::svg::Rgb;
use crate::units::{bytes, bytes_short};

/// The colours of the map, where a surface of one has a pattern its ink.
const LIVE: Rgb = (0x3b, 0x6e, 0xa5);
const PENDING: Rgb = (0xd9, 0xa9, 0x1e);
const STRANDED: Rgb = (0xc9, 0x5a, 0x45);
const POOL_IDLE: Rgb = (0x8a, 0x78, 0xb8);
const RELEASABLE: Rgb = (0x8f, 0xb8, 0x7f);

/// A bar of the parts, and each with its meaning.
pub fn memory(device: &DeviceReport) -> Markup {
    let totals = &device.segments.fragmentation.totals;
    let rounding = totals.rounding.map_or_else(String::new, |rounding| format!(", rounding {}", bytes(rounding)));
    let live = format!("requested {}{rounding}", bytes(totals.requested));
    let parts: [(&str, Option<u64>, Rgb, String); 5] = [
        ("live", Some(totals.allocated), LIVE, live),
        (
            "waiting for a stream",
            Some(totals.pending),
            PENDING,
            "freed, but another stream may still use it".to_owned(),
        ),
        ("stranded", totals.stranded, STRANDED, "free, next to live blocks that pin it".to_owned()),
        ("idle in private pools", totals.pool_idle, POOL_IDLE, "free, of no use to others".to_owned()),
        ("releasable", totals.releasable, RELEASABLE, "free, empty_cache() would return it".to_owned()),
    ];
    let percent = |part: u64| format!("{:.3}%", 100.0 * part as f64 / totals.reserved.max(1) as f64);
    let starts = parts.iter().scan(0, |end, (_, size, ..)| {
        let start = *end;
        *end += size.unwrap_or(0);
        Some(start)
    });
    html! {
        div.memory {
            p.reserved {
                b { (bytes(totals.reserved)) } " reserved"
                @if let Some(capacity) = device.capacity { " of " (bytes(capacity)) " it could have" }
                @if let Some(failure) = &device.failure {
                    " · " b { (bytes(failure.rounded)) } " asked for (a segment of " (bytes_short(failure.segment_size)) "), "
                    b { (bytes(failure.device_free)) } " left on the device"
                }
                @if let Some(largest) = totals.largest_free { " · largest hole " b { (bytes(largest)) } }
            }
            svg.parts width="100%" height="18" role="img" aria-label="Parts of the reserved memory" {
                @for ((name, size, colour, _), start) in parts.iter().zip(starts) {
                    @let size = size.unwrap_or(0);
                    @if size > 0 {
                        rect x=(percent(start)) width=(percent(size)) height="18" fill=(hex(*colour)) { title { (name) " " (bytes(size)) } }
                    }
                }
            }
            table.plain.parts { tbody {
                @for (name, size, colour, note) in &parts {
                    @if size.is_none_or(|size| size > 0) {
                        tr {
                            th scope="row" { (swatch(plain(*colour))) " " (name) }
                            td.number { (size.map_or_else(|| "unknown".to_owned(), bytes)) }
                            td { (note) }
                        }
                    }
                }
            } }
        }
    }
}
