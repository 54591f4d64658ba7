/** Reads the protobuf messages of OTLP by their field numbers (opentelemetry-proto), without the exporter's own code. */

/** The decoding of a field, or the message type that it contains. */
type Kind = 'text' | 'bytes' | 'varint' | 'fixed64' | 'double' | 'packed64' | Fields
interface Fields {
  readonly [number: number]: readonly [name: string, kind: Kind, repeated?: 'repeated']
}

const any: Fields = { 1: ['text', 'text'], 2: ['flag', 'varint'], 3: ['integer', 'varint'], 4: ['double', 'double'] }
const attribute: Fields = { 1: ['key', 'text'], 2: ['value', any] }
const resource: Fields = { 1: ['attributes', attribute, 'repeated'] }
const span: Fields = {
  1: ['traceId', 'bytes'],
  2: ['spanId', 'bytes'],
  3: ['traceState', 'text'],
  4: ['parentSpanId', 'bytes'],
  5: ['name', 'text'],
  6: ['kind', 'varint'],
  7: ['start', 'fixed64'],
  8: ['end', 'fixed64'],
  9: ['attributes', attribute, 'repeated'],
  13: ['links', { 1: ['traceId', 'bytes'], 2: ['spanId', 'bytes'] }, 'repeated'],
  15: ['status', { 2: ['message', 'text'], 3: ['code', 'varint'] }],
}
const traces: Fields = {
  1: [
    'resources',
    { 1: ['resource', resource], 2: ['scopes', { 2: ['spans', span, 'repeated'] }, 'repeated'] },
    'repeated',
  ],
}
const histogramPoint: Fields = {
  4: ['count', 'fixed64'],
  5: ['sum', 'double'],
  6: ['buckets', 'packed64'],
  9: ['attributes', attribute, 'repeated'],
}
const numberPoint: Fields = {
  4: ['double', 'double'],
  6: ['integer', 'fixed64'],
  7: ['attributes', attribute, 'repeated'],
}
const metric: Fields = {
  1: ['name', 'text'],
  3: ['unit', 'text'],
  5: ['gauge', { 1: ['points', numberPoint, 'repeated'] }],
  7: ['sum', { 1: ['points', numberPoint, 'repeated'] }],
  9: ['histogram', { 1: ['points', histogramPoint, 'repeated'] }],
}
const metrics: Fields = {
  1: [
    'resources',
    { 1: ['resource', resource], 2: ['scopes', { 2: ['metrics', metric, 'repeated'] }, 'repeated'] },
    'repeated',
  ],
}

/** Decodes into the shape of the tables above. */
// biome-ignore lint/suspicious/noExplicitAny: the types do not follow from the tables, which are data.
export type Decoded = any

export const decodeTraces = (bytes: Buffer): Decoded => decode(bytes, traces)
export const decodeMetrics = (bytes: Buffer): Decoded => decode(bytes, metrics)

/** Returns attributes as a plain object. */
export const plain = (attributes: Decoded[] = []): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [key, value?.text ?? value?.double ?? value?.integer ?? value?.flag === 1]),
  )

function decode(bytes: Buffer, fields: Fields): Decoded {
  const found: Decoded = {}
  let at = 0
  const varint = () => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes.readUInt8(at++)
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const wire = tag & 7
    const start = at
    const length = wire === 2 ? varint() : wire === 1 ? 8 : wire === 5 ? 4 : undefined
    const part = length === undefined ? undefined : bytes.subarray(at, at + length)
    const number = part === undefined ? varint() : 0
    if (part !== undefined) at += part.length
    if (part !== undefined && part.length !== length) throw new Error(`cut off at ${start}`)
    const field = fields[tag >>> 3]
    if (field === undefined) continue
    const [name, kind, repeated] = field
    const value = readValue(part, number, kind)
    if (repeated) (found[name] ??= []).push(value)
    else found[name] = value
  }
  return found
}

function readValue(part: Buffer | undefined, number: number, kind: Kind): unknown {
  if (part === undefined) return number
  if (typeof kind === 'object') return decode(part, kind)
  if (kind === 'text') return part.toString('utf8')
  if (kind === 'double') return part.readDoubleLE(0)
  if (kind === 'fixed64') return Number(part.readBigUInt64LE(0))
  if (kind === 'packed64')
    return Array.from({ length: part.length / 8 }, (_, index) => Number(part.readBigUInt64LE(index * 8)))
  return part.toString('hex')
}
