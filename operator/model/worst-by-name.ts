/**
 * What several pods report of the same things, as one: of each name the report that is worst, for somebody has to act.
 * `answers` are lists, of any shape; `read` gives undefined for an item that is none of ours. Sorted by name.
 */
export function worstByName<Report extends { readonly name: string }>(
  answers: readonly unknown[],
  read: (item: unknown) => Report | undefined,
  badness: (report: Report) => number,
): readonly Report[] {
  const found = new Map<string, Report>()
  for (const answer of answers)
    for (const item of Array.isArray(answer) ? answer : []) {
      const report = read(item)
      const before = report && found.get(report.name)
      if (report && (before === undefined || badness(report) > badness(before))) found.set(report.name, report)
    }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}
