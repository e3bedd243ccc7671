//! Tests that rows are encoded to cells and decoded without change.

use tidegate_core::row::{Row, RowKind};
use tidegate_store::codec::{Cell, ColumnType, Table, cells, check, key_cells, prefix_end, row};
use tidegate_testkit::sample;

#[test]
fn every_row_comes_back_as_it_was() {
    for before in sample::every_row() {
        let after = row(before.kind(), cells(&before)).unwrap();
        assert_eq!(after, before);
    }
}

#[test]
fn the_samples_cover_every_table() {
    let rows = sample::every_row();
    for kind in RowKind::ALL {
        assert!(rows.iter().any(|row| row.kind() == kind), "there is no sample of {kind:?}");
    }
}

#[test]
fn cells_match_their_columns() {
    for row in sample::every_row() {
        let table = Table::of(row.key().kind());
        let cells = cells(&row);
        assert_eq!(cells.len(), table.columns.len(), "{table:?}");
        for (cell, (name, kind)) in cells.iter().zip(table.columns) {
            let is = match cell {
                Cell::Int(_) => ColumnType::Int,
                Cell::Text(_) => ColumnType::Text,
                Cell::Bytes(_) => ColumnType::Bytes,
            };
            assert_eq!(is, *kind, "{table:?}.{name}");
        }
    }
}

#[test]
fn a_key_is_the_first_cells_of_its_row() {
    for row in sample::every_row() {
        let table = Table::of(row.kind());
        assert_eq!(key_cells(&row.key()), cells(&row)[..table.key_len], "{table:?}");
    }
}

#[test]
fn no_sample_needs_a_nul_in_text() {
    for row in sample::every_row() {
        check(&row, &cells(&row)).unwrap();
    }
}

#[test]
fn a_name_with_nul_is_refused_by_its_column() {
    let row = Row::from(sample::step(1, "a\0b"));
    let error = check(&row, &cells(&row)).unwrap_err().to_string();
    assert_eq!(error, "the store refused a row: step.id must not contain NUL");
}

#[test]
fn a_wrong_cell_is_named_in_the_error() {
    let mut broken = cells(&Row::from(sample::event(1, "{}")));
    broken[7] = Cell::Text(Some("{".to_owned()));
    let error = row(RowKind::Event, broken).unwrap_err().to_string();
    assert!(error.contains("event.data: payload must be JSON"), "{error}");

    let mut broken = cells(&Row::from(sample::run(1)));
    broken[12] = Cell::Text(None);
    let error = row(RowKind::Run, broken).unwrap_err().to_string();
    assert!(error.contains("run.body: expected JSON"), "{error}");
}

#[test]
fn a_run_with_the_body_of_another_is_refused() {
    let mut mixed = cells(&Row::from(sample::run(1)));
    mixed[0] = Cell::Int(Some(2));
    let error = row(RowKind::Run, mixed).unwrap_err().to_string();
    assert!(error.contains("run 2 has the body of run 1"), "{error}");
}

#[test]
fn a_prefix_ends_before_the_first_key_beyond_it() {
    let cases: [(&[u8], &[u8]); 3] = [(b"ab", b"ac"), (&[1, 255], &[2]), (&[0, 255, 255], &[1])];
    for (prefix, end) in cases {
        assert_eq!(prefix_end(prefix), end);
    }
    assert!(prefix_end(&[]) > vec![254; 100]);
}
