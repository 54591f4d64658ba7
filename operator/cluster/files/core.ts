import { at, isObject } from '../../../crds/settings/json.ts'
import type { ObjectFinding } from './metadata.ts'

/** A Secret or ConfigMap with its values as bytes. Values of Secrets must not reach any output. */
export interface CoreObject {
  readonly namespace: string
  readonly name: string
  readonly file: string
  readonly values: ReadonlyMap<string, Buffer>
}

const base64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
/** The rule of the API server: a file name that leads nowhere else. */
const keyName = /^(?!\.\.?$|\.\.)[-._a-zA-Z0-9]{1,253}$/

type Decode = (value: string) => Buffer | undefined
const decodeText: Decode = (value) => Buffer.from(value)
const decodeBase64: Decode = (value) => {
  const packed = value.replaceAll(/\s/g, '')
  return base64.test(packed) ? Buffer.from(packed, 'base64') : undefined
}

/** Fields in ascending priority: the last one that sets a key wins. */
const FIELDS: Record<string, readonly (readonly [string, Decode])[]> = {
  Secret: [
    ['data', decodeBase64],
    ['stringData', decodeText],
  ],
  ConfigMap: [
    ['data', decodeText],
    ['binaryData', decodeBase64],
  ],
}

export const isCoreKind = (kind: string): kind is 'Secret' | 'ConfigMap' => Object.hasOwn(FIELDS, kind)

/** Reads the values of a Secret or ConfigMap. A finding never shows a value. */
export function readCoreObject(kind: 'Secret' | 'ConfigMap', object: Record<string, unknown>) {
  const findings: ObjectFinding[] = []
  const values = new Map<string, Buffer>()
  const refuse = (pointer: string, message: string) =>
    findings.push({ severity: 'error', reason: `${kind}Invalid`, message, pointer })

  for (const [field, decode] of FIELDS[kind] ?? []) {
    const map = object[field]
    if (map === undefined || map === null) continue
    if (!isObject(map)) {
      refuse(`/${field}`, 'must be a map of strings')
      continue
    }
    for (const [key, value] of Object.entries(map)) {
      const read = readValue(kind, key, value, decode)
      if (typeof read === 'string') refuse(at(`/${field}`, key), read)
      else values.set(key, read)
    }
  }
  return { values, findings }
}

/** Returns the bytes under a key, or what is wrong with it. */
function readValue(kind: string, key: string, value: unknown, decode: Decode): Buffer | string {
  if (!keyName.test(key)) return 'a key must be letters, digits, "-", "_" and ".", at most 253'
  if (typeof value !== 'string') return 'must be a string; put the value in quotes'
  const hint = kind === 'Secret' ? 'must be base64; plain text goes into stringData' : 'must be base64'
  return decode(value) ?? hint
}
