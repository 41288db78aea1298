//! Text tables.

/// Aligns the cells of each column and ends each row with a newline. The last cell is not padded, so no line ends in
/// spaces.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "long", "x"], ["longer", "b", "y"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "a       long  x\nlonger  b     y\n");
        assert_eq!(aligned::<2>(&[]), "");
    }
}
