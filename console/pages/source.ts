import type { AuditedCall } from '../facts/calls.ts'
import type { SourceFacts } from '../facts/source.ts'
import type { Headed } from '../facts/workload.ts'
import { type Child, h } from './element.ts'
import { brief, copyBlock, details, empty, facts as list, moment, NOTHING, prose, stateTag, table } from './parts.ts'
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
  /** The calls of the lines that have the form of one. */
  readonly calls: readonly AuditedCall[]
  readonly missing: string | null
  /** The command that shows the whole log; null if `portico run` keeps it in a file. */
  readonly command: string | null
}

const outcomeTag = ({ outcome, error }: AuditedCall): Child => [
  stateTag(
    outcome === 'success' ? 'well' : outcome === '' ? 'unknown' : 'ill',
    outcome === '' ? undefined : brief(outcome, 40),
  ),
  error !== '' && h('span', { dir: 'auto' }, ` ${error}`),
]

/** Renders the latest lines of the audit log. */
export const logPage = (facts: LogFacts, now: number): Child => [
  workloadHead(facts, 'log'),
  facts.command === null
    ? h(
        'p',
        { class: 'lead' },
        prose('The latest calls of the audit log. All logs are in `run.log` in the state folder of `portico run`.'),
      )
    : [
        h('p', { class: 'lead' }, 'The latest calls of the audit log. The whole log:'),
        copyBlock(facts.command, 'Command for the log'),
      ],
  h('h2', {}, 'Audit log'),
  facts.missing !== null && empty(h('p', {}, facts.missing)),
  facts.missing === null &&
    facts.lines.length === 0 &&
    empty(h('p', {}, 'No call yet. The log is written where ', h('code', {}, 'audit.enabled'), ' is true.')),
  facts.calls.length > 0 &&
    table<AuditedCall>(
      [
        { title: 'Call', width: 'wide', cell: ({ type, tool }) => (tool === '' ? type : tool) },
        { title: 'When', cell: ({ time }) => moment(time, now, 'second') },
        { title: 'Outcome', cell: outcomeTag },
        { title: 'Who', cell: ({ who }) => h('span', { dir: 'auto' }, who) },
        { title: 'Client', cell: ({ client }) => h('span', { dir: 'auto' }, client || NOTHING) },
        {
          title: 'Took',
          isNumber: true,
          cell: ({ durationMs }) =>
            durationMs === null
              ? NOTHING
              : `${durationMs < 10 ? durationMs.toFixed(1) : Math.round(durationMs).toLocaleString('en')} ms`,
        },
      ],
      facts.calls,
      { caption: 'Newest first', key: ({ requestId, time }) => `${requestId} ${time}`, isRead: true },
    ),
  facts.lines.length > 0 && details('The lines as JSON', 'Audit log', facts.lines.join('\n')),
]
