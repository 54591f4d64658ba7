import { isObject } from '../../crds/settings/json.ts'
import type { Claims } from './principal.ts'
import type { Subject } from './source.ts'

export interface Question {
  /** The caller's claims with its `sub`; undefined for an anonymous caller. */
  readonly caller: Claims | undefined
  readonly type: Subject['type']
  readonly id: string
  readonly arguments: Readonly<Record<string, unknown>>
}

const types = { tool: 'Tool', prompt: 'Prompt', resource: 'Resource' } as const
const known = new Set([...Object.keys(types), 'caller', 'arguments'])

/** Tells whether a value is a caller with a subject, for an explanation. */
export const isCaller = (value: unknown): value is Claims =>
  isObject(value) && typeof value['sub'] === 'string' && value['sub'] !== ''

/** Reads `{caller, tool | prompt | resource, arguments}`. Returns a message if it is invalid. */
export function readQuestion(value: unknown): Question | string {
  if (!isObject(value)) return 'The body must be a JSON object.'
  const stranger = Object.keys(value).find((name) => !known.has(name))
  if (stranger !== undefined) return `${JSON.stringify(stranger)} has no meaning here.`
  const { caller, arguments: given = {} } = value
  if (caller !== undefined && caller !== null && !isCaller(caller)) return 'caller must hold claims, with a sub.'
  if (!isObject(given)) return 'arguments must be an object.'
  const [asked, ...more] = (Object.keys(types) as (keyof typeof types)[]).filter((name) => value[name] !== undefined)
  const id = asked && value[asked]
  if (asked === undefined || more.length > 0 || typeof id !== 'string')
    return 'Exactly one of tool, prompt and resource must be there, a string.'
  return { caller: caller ?? undefined, type: types[asked], id, arguments: given }
}
