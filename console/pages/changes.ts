import type { DefinitionFacts } from '../facts/changes.ts'
import type { Headed } from '../facts/workload.ts'
import { type Child, h } from './element.ts'
import { copyBlock, empty, facts as list, note, preformatted, stateTag } from './parts.ts'
import { workloadHead } from './workload.ts'

/** Renders the definitions of a workload's servers that differ from the approved ones. */
export const definitionsView = ({ approved, unchecked, changed, missing, silence }: DefinitionFacts): Child => [
  silence !== null && note('warn', h('p', {}, `Its definitions are not known: ${silence}.`)),
  silence === null &&
    list([
      ['Approved', approved],
      ['Changed', changed.length],
      [
        'Not checked',
        unchecked === 0 ? null : [unchecked, ' (no pins: ', h('code', {}, 'portico pin'), ' writes them)'],
      ],
      ['Approved, but no longer listed', missing.length === 0 ? null : missing.join(', ')],
    ]),
  changed.map(({ backend, kind, name, state, reason, digest, text }) =>
    h(
      'article',
      {
        class: `incident ${state === 'withheld' ? 'ill' : ''}`.trim(),
        'data-key': `${backend} ${kind} ${name} ${digest}`,
      },
      h('h3', {}, stateTag(state === 'withheld' ? 'ill' : 'attention', state), `${backend}: ${kind} ${name}`),
      list([
        ['Reason', reason],
        ['Served digest', digest === null ? null : h('code', {}, digest)],
      ]),
      text !== null && preformatted(`Definition of ${name}`, text, 'auto'),
    ),
  ),
]

/** Says that nothing is approved yet, and how to begin. `folder`: the folder of the manifests. */
export const unpinned = (count: number, folder: string): Child =>
  empty(
    h('p', {}, h('b', {}, `Nothing is approved yet: ${count.toLocaleString('en')} definitions are served unchecked.`)),
    h(
      'p',
      {},
      'Pins approve the definitions that somebody has reviewed. This command writes them, as manifests to review and apply:',
    ),
    h('p', {}, h('code', {}, `portico pin ${folder}`)),
  )

/** Renders the definitions of one workload. */
export const changesPage = (facts: Headed & DefinitionFacts, folder: string): Child => [
  workloadHead(facts, 'changes'),
  facts.approved + facts.changed.length === 0 && facts.unchecked > 0
    ? unpinned(facts.unchecked, folder)
    : definitionsView(facts),
  facts.silence === null &&
    facts.approved > 0 &&
    facts.changed.length === 0 &&
    h('p', { class: 'calm' }, '✓ Everything is served as approved.'),
  facts.silence === null &&
    facts.changed.length > 0 && [
      h('h2', {}, 'Approve'),
      h('p', {}, 'Pins are manifests. Write them again from the served definitions, review the change, and apply it:'),
      copyBlock(`portico pin ${folder} && git diff`, 'Command that writes pins'),
    ],
]
