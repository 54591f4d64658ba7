import type { SourceFacts } from '../facts/source.ts'
import type { Headed } from '../facts/workload.ts'
import { type Child, h } from './element.ts'
import { copyBlock, empty, facts as list } from './parts.ts'
import { workloadHead } from './workload.ts'

/** Renders the manifest of an object. */
export const sourcePage = (facts: SourceFacts): Child => [
  workloadHead(facts, 'yaml'),
  list([
    ['Manifest', facts.file],
    [
      'Changed by',
      facts.managedBy === null ? null : `${facts.managedBy}: change it in its source, or the change is undone.`,
    ],
  ]),
  copyBlock(facts.yaml, 'Manifest'),
]

export interface LogFacts extends Headed {
  readonly lines: readonly string[]
  readonly missing: string | null
  /** The command that shows the whole log; null if `portico run` keeps it in a file. */
  readonly command: string | null
}

/** Renders the latest lines of the audit log. */
export const logPage = (facts: LogFacts): Child => [
  workloadHead(facts, 'log'),
  facts.command === null
    ? h(
        'p',
        { class: 'lead' },
        'The latest lines of the audit log. All logs are in ',
        h('code', {}, 'run.log'),
        ' in the state folder of ',
        h('code', {}, 'portico run'),
        '.',
      )
    : [
        h('p', { class: 'lead' }, 'The latest lines of the audit log. The whole log:'),
        copyBlock(facts.command, 'Command for the log'),
      ],
  h('h2', {}, 'Audit log'),
  facts.missing !== null && empty(h('p', {}, facts.missing)),
  facts.missing === null &&
    facts.lines.length === 0 &&
    empty(h('p', {}, 'No line yet. The log is written where ', h('code', {}, 'audit.enabled'), ' is true.')),
  facts.lines.length > 0 && h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Audit log' }, facts.lines.join('\n')),
]
