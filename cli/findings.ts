import type { Inspection, ManifestFinding } from '../operator/cluster/files/index.ts'
import type { Io } from './command.ts'

/** Reasons of findings about files and folders without lines: they are missing, or can't be read as text. */
const WITHOUT_LINES: ReadonlySet<string> = new Set(['FileMissing', 'FileUnreadable', 'FolderEmpty'])

const formatFinding = ({ file, line, severity, pointer, message, reason }: ManifestFinding): string =>
  `${file}${WITHOUT_LINES.has(reason) ? '' : `:${line}`}: ${severity}: ${pointer ? `${pointer}: ` : ''}${message} (${reason})`

export const hasErrors = (findings: readonly ManifestFinding[]): boolean =>
  findings.some(({ severity }) => severity === 'error')

export function printFindings(findings: readonly ManifestFinding[], io: Io): void {
  for (const finding of findings) io.err(formatFinding(finding))
}

const formatCount = (count: number, one: string) => `${count} ${one}${count === 1 ? '' : 's'}`

export function formatSummary({ set, findings }: Inspection): string {
  const count = (severity: string) => findings.filter((finding) => finding.severity === severity).length
  const checked = formatCount(set.manifests.length, 'object')
  return `${checked} checked (${set.group}): ${formatCount(count('error'), 'error')}, ${formatCount(count('warning'), 'warning')}`
}
