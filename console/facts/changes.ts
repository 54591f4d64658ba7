import { isObject } from '../../crds/settings/json.ts'
import type { Report } from '../places/place.ts'

/** A definition of a server (a tool, a prompt, its instructions) that differs from the approved one. */
export interface ChangedDefinition {
  readonly backend: string
  readonly kind: string
  readonly name: string
  readonly state: string
  readonly reason: string | null
  readonly digest: string | null
  readonly text: string | null
}

export interface DefinitionFacts {
  /** The numbers of definitions that are approved, and of those that are not checked. */
  readonly approved: number
  readonly unchecked: number
  /** Definitions that are withheld or reported as changed. */
  readonly changed: readonly ChangedDefinition[]
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
  const all = (Array.isArray(backends) ? backends.filter(isObject) : []).flatMap((backend) => readDefinitions(backend))
  const ofState = (state: string) => all.filter((one) => one.state === state)
  return {
    approved: ofState('approved').length,
    unchecked: ofState('unchecked').length,
    changed: [...ofState('withheld'), ...ofState('reported')].slice(0, MOST),
    missing: listMissing(backends).slice(0, MOST),
    silence: null,
  }
}

function readDefinitions(backend: Readonly<Record<string, unknown>>): readonly ChangedDefinition[] {
  const { definitions, name } = backend
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
