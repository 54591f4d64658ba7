import { isObject } from '../../crds/settings/json.ts'
import type { Report } from '../places/place.ts'

export interface DefinitionFacts {
  /** The numbers of definitions that are approved, and of those that are not checked. */
  readonly approved: number
  readonly unchecked: number
  /** Definitions that are withheld or reported as changed. */
  readonly changed: ReturnType<typeof readDefinitions>
  /** Approved names that the backend does not list. */
  readonly missing: readonly string[]
  /** The reason why the definitions are unknown; null if they are known. */
  readonly silence: string | null
}

const MOST = 200
const LONGEST = 10_000

const text = (value: unknown): string | null => (typeof value === 'string' ? value.slice(0, LONGEST) : null)

/** Reads the definitions that a data plane reports. The report is untrusted. */
export function readDefinitionFacts(report: Report): DefinitionFacts {
  if ('missing' in report) return { approved: 0, unchecked: 0, changed: [], missing: [], silence: report.missing }
  const { backends } = report.status
  const all = (Array.isArray(backends) ? backends.filter(isObject) : []).flatMap(readDefinitions)
  const ofState = (state: string) => all.filter((one) => one.state === state)
  return {
    approved: ofState('approved').length,
    unchecked: ofState('unchecked').length,
    changed: [...ofState('withheld'), ...ofState('reported')].slice(0, MOST),
    missing: listMissing(backends).slice(0, MOST),
    silence: null,
  }
}

/** Reads the definitions of a server: tools, prompts, its instructions. */
function readDefinitions({ definitions, name }: Readonly<Record<string, unknown>>) {
  return (Array.isArray(definitions) ? definitions.filter(isObject) : []).map((one) => ({
    backend: text(name) ?? '',
    kind: text(one['kind']) ?? '',
    name: text(one['name']) ?? '',
    state: text(one['state']) ?? '',
    reason: text(one['reason']),
    digest: text(one['digest']),
    text: text(one['text']),
  }))
}

function listMissing(backends: unknown): readonly string[] {
  return (Array.isArray(backends) ? backends.filter(isObject) : []).flatMap(({ name, missing }) =>
    (Array.isArray(missing) ? missing.filter(isObject) : []).map(
      (one) => `${text(name)}: ${text(one['kind'])} ${text(one['name'])}`,
    ),
  )
}
