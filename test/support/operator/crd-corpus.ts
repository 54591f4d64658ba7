/** Reads `test/crds/corpus`: objects, each with the expected verdict. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { DEFAULT_GROUP, formatApiVersion } from '../../../crds/index.ts'

export interface CorpusCase {
  readonly title: string
  readonly object: { apiVersion: string; kind: string; metadata: { name: string }; spec: object }
  /** The pointer and a part of the message of every finding; empty for a valid object. */
  readonly refused: readonly (readonly [pointer: string, message: string])[]
}

interface CorpusFile {
  readonly kind: string
  readonly base: object
  readonly cases: readonly {
    readonly title: string
    readonly name?: string
    readonly set?: object
    /** Lists of the spec whose only item is repeated this many times, each with a number after its name. */
    readonly many?: Readonly<Record<string, number>>
    readonly spec?: unknown
    readonly refused?: Record<string, string> | [string, string][]
  }[]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/** Applies a merge patch (RFC 7386). */
function merge(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = merge(result[key], value)
  }
  return result
}

/** Repeats the items of lists. */
function repeatItems(spec: unknown, many: Readonly<Record<string, number>>): unknown {
  const lists = Object.entries(many).map(([field, count]) => {
    const [item] = (spec as Record<string, { name: string }[]>)[field] ?? []
    return [field, Array.from({ length: count }, (_, index) => ({ ...item, name: `${item?.name}${index}` }))]
  })
  return { ...(spec as object), ...Object.fromEntries(lists) }
}

const folder = new URL('../../crds/corpus', import.meta.url).pathname

export function readCorpus(): CorpusCase[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'))
  return files.sort().flatMap((name) => {
    const { kind, base, cases } = parse(readFileSync(join(folder, name), 'utf8')) as CorpusFile
    return cases.map((one, index) => ({
      title: `${kind}: ${one.title}`,
      object: {
        apiVersion: formatApiVersion(DEFAULT_GROUP),
        kind,
        metadata: { name: one.name ?? `case-${index}` },
        spec: (Object.hasOwn(one, 'spec')
          ? one.spec
          : repeatItems(merge(base, one.set ?? {}), one.many ?? {})) as object,
      },
      refused: Array.isArray(one.refused) ? one.refused : Object.entries(one.refused ?? {}),
    }))
  })
}
