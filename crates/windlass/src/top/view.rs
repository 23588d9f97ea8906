//! The picture: totals by rule on top, flows below.

use super::look::{Look, Order, Row, Total};
use crate::print;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::Line,
    widgets::{self, Cell, Table, TableState},
};
use windlass_agent::OnlyWatched;
use windlass_scenario::Printable;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const MARKED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Totals of more rules than these leave the screen to the flows.
const TOTALS_AT_ONCE: usize = 8;

/// A column of a table.
struct Column {
    title: &'static str,
    /// The order that it stands for.
    order: Option<Order>,
    /// Cells that it needs.
    least: u16,
    /// Its part of what is left over; 0: it needs no more.
    part: u16,
    /// Where there is no room for all, those leave in this order, from 1 on; 0: it stays.
    leaves: u8,
}

const fn column(title: &'static str, order: Option<Order>, least: u16, part: u16, leaves: u8) -> Column {
    Column { title, order, least, part, leaves }
}

/// An IPv4 address and its port.
const ADDRESS: u16 = 21;

/// Addresses, state, rate, round trip, window and losses have room in the 80 cells of a usual terminal.
const FLOW_COLUMNS: [Column; 13] = [
    column("rule", Some(Order::Rule), 6, 2, 6),
    column("iface", None, 6, 1, 1),
    column("sender", Some(Order::Sender), ADDRESS, 3, 0),
    column("receiver", None, ADDRESS, 3, 0),
    column("state", None, 7, 0, 7),
    column("alg", None, 6, 0, 5),
    column("rate", Some(Order::Rate), 7, 0, 0),
    column("srtt", Some(Order::Srtt), 7, 0, 10),
    column("cwnd", Some(Order::Cwnd), 6, 0, 9),
    column("inflight", Some(Order::Inflight), 8, 0, 4),
    column("lost", Some(Order::Lost), 5, 0, 8),
    column("repaired", Some(Order::Repaired), 8, 0, 3),
    column("own rtx", None, 7, 0, 2),
];

const TOTAL_COLUMNS: [Column; 9] = [
    column("rule", None, 6, 1, 0),
    column("flows", None, 7, 0, 0),
    column("controlled", None, 10, 0, 6),
    column("rate", None, 8, 0, 0),
    column("inflight", None, 9, 0, 2),
    column("stored", None, 9, 0, 1),
    column("lost", None, 9, 0, 4),
    column("repaired", None, 9, 0, 5),
    column("own rtx", None, 9, 0, 3),
];

/// Which columns have room in `width` cells, with one between two, and how wide each is.
fn fitting(columns: &[Column], width: u16) -> Vec<(usize, u16)> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let needed = |kept: &[usize]| kept.iter().map(|i| columns[*i].least + 1).sum::<u16>() - 1;
    while needed(&kept) > width
        && let Some(first) =
            kept.iter().copied().filter(|i| columns[*i].leaves > 0).min_by_key(|i| columns[*i].leaves)
    {
        kept.retain(|i| *i != first);
    }
    let left = width.saturating_sub(needed(&kept));
    let parts = kept.iter().map(|i| columns[*i].part).sum::<u16>().max(1);
    kept.into_iter().map(|i| (i, columns[i].least + left * columns[i].part / parts)).collect()
}

/// What the user has chosen.
#[derive(Debug, Default)]
pub struct Choice {
    pub order: Order,
    /// The marked flow, and with it what part of a long list is shown.
    pub table: TableState,
}

fn kib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{}k", bytes >> 10)
    } else {
        format!("{:.1}M", bytes as f64 / f64::from(1 << 20))
    }
}

/// A number of segments, in five cells.
fn count(segs: u32) -> String {
    match segs {
        0..100_000 => segs.to_string(),
        100_000..10_000_000 => format!("{}k", segs / 1000),
        _ => format!("{}M", segs / 1_000_000),
    }
}

fn total_cells(t: &Total) -> [String; TOTAL_COLUMNS.len()] {
    [
        Printable(&t.rule_name).to_string(),
        t.flows.to_string(),
        t.controlled.to_string(),
        print::bps(t.rate_bps),
        kib(t.inflight_bytes),
        kib(t.stored_bytes),
        t.lost_segs.to_string(),
        t.repaired_segs.to_string(),
        t.sender_retrans_segs.to_string(),
    ]
}

/// What is done with the flow now: its mode, unless it is bypassed, or there is a reason why it is only watched.
fn state(row: &Row) -> &'static str {
    match (row.seen.flow.mode, row.seen.flow.state) {
        ("transparent", "active") => "control",
        ("transparent", other) => other,
        (mode, _) => row.seen.flow.only_watched.map_or(mode, OnlyWatched::word),
    }
}

fn flow_cells(row: &Row) -> [String; FLOW_COLUMNS.len()] {
    let f = &row.seen.flow;
    [
        Printable(&row.seen.rule_name).to_string(),
        Printable(&row.seen.iface).to_string(),
        f.sender.to_string(),
        f.receiver.to_string(),
        state(row).into(),
        f.algorithm.into(),
        row.rate_bps.map_or("-".into(), print::bps),
        print::us(f.srtt_us),
        kib(f.cwnd_bytes.into()),
        kib(f.inflight_bytes.into()),
        count(f.lost_segs),
        count(f.repaired_segs),
        count(f.sender_retrans_segs),
    ]
}

fn table<const N: usize>(
    columns: &[Column; N],
    chosen: Option<Order>,
    rows: Vec<[String; N]>,
    width: u16,
) -> Table<'static> {
    let kept = fitting(columns, width);
    let titles = kept.iter().map(|(i, _)| {
        let Column { title, order, .. } = &columns[*i];
        let is_chosen = order.is_some() && *order == chosen;
        Cell::from(*title).style(if is_chosen { MARKED } else { BOLD })
    });
    let header = widgets::Row::new(titles.collect::<Vec<_>>());
    let rows = rows.into_iter().map(|mut cells| {
        widgets::Row::new(kept.iter().map(|(i, _)| std::mem::take(&mut cells[*i])).collect::<Vec<_>>())
    });
    let widths = kept.iter().map(|(_, width)| Constraint::Length(*width));
    Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>()).header(header).column_spacing(1)
}

/// Draws it all; `look.flows` are sorted already.
pub fn draw(frame: &mut Frame, look: &Look, choice: &mut Choice) {
    let totals = look.totals.len().min(TOTALS_AT_ONCE) as u16;
    let areas: [Rect; 5] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(totals + 1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!("windlass: {} flows under {} rules", look.flows.len(), look.totals.len());
    frame.render_widget(Line::styled(title, BOLD), areas[0]);
    let width = frame.area().width;
    let totals = table(&TOTAL_COLUMNS, None, look.totals.iter().map(total_cells).collect(), width);
    frame.render_widget(totals, areas[1]);
    let rows = look.flows.iter().map(flow_cells).collect();
    let flows = table(&FLOW_COLUMNS, Some(choice.order), rows, width).row_highlight_style(MARKED);
    frame.render_stateful_widget(flows, areas[3], &mut choice.table);
    frame.render_widget(Line::raw("s, left, right: sort   up, down: scroll   q: quit"), areas[4]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(columns: &[Column], width: u16) -> Vec<(&'static str, u16)> {
        fitting(columns, width).into_iter().map(|(i, cells)| (columns[i].title, cells)).collect()
    }

    /// What identifies flows, and their rate, are to be read whatever the terminal.
    #[test]
    fn flows_can_be_distinguished_on_a_small_terminal() {
        let named =
            |width| titles(&FLOW_COLUMNS, width).into_iter().map(|(title, _)| title).collect::<Vec<_>>();
        assert_eq!(named(80), ["sender", "receiver", "state", "rate", "srtt", "cwnd", "lost"]);
        assert_eq!(named(51), ["sender", "receiver", "rate"]);
        assert_eq!(named(200).len(), FLOW_COLUMNS.len());
        for width in 20..200 {
            for columns in [&FLOW_COLUMNS[..], &TOTAL_COLUMNS[..]] {
                let fits = titles(columns, width);
                let needed: u16 = fits.iter().map(|(_, cells)| cells + 1).sum::<u16>() - 1;
                let must = columns.iter().filter(|c| c.leaves == 0).map(|c| c.least + 1).sum::<u16>() - 1;
                assert!(needed <= width.max(must), "{width}: {fits:?}");
                assert!(
                    fits.iter().filter(|(title, _)| *title == "sender").all(|(_, cells)| *cells >= ADDRESS)
                );
            }
        }
        let cells =
            [count(99_999), count(9_999_999), count(u32::MAX), print::us(9_999_999), print::bps(999_900_000)];
        assert_eq!(cells, ["99999", "9999k", "4294M", "10.00s", "999.9M"], "they fit");
        assert_eq!(
            titles(&TOTAL_COLUMNS, 40).iter().map(|(t, _)| *t).collect::<Vec<_>>(),
            ["rule", "flows", "controlled", "rate"]
        );
    }
}
