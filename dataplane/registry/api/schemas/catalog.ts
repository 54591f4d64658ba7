import Type, { type TSchema } from 'typebox'

/** Parameters and answers of the consumer API (MCP registry API v0.1). */

const text = Type.String()
const time = Type.String({ format: 'date-time' })

export const registryParameter = Type.String({ description: 'Name of the registry.', minLength: 1, maxLength: 63 })
export const entryParameter = Type.String({
  description: '`namespace/name`, its slash as `%2F`.',
  minLength: 3,
  maxLength: 200,
  examples: ['com.example/weather'],
})
export const versionParameter = Type.String({ description: 'A version or `latest`.', minLength: 1, maxLength: 255 })

export const includeDeleted = Type.Boolean({ description: 'Shows deleted versions too.', default: false })
export const listParameters = {
  cursor: Type.String({ description: '`nextCursor` of the page before, with the same query.', maxLength: 2048 }),
  limit: Type.Integer({ description: 'Versions of a page.', minimum: 1, maximum: 100, default: 30 }),
  search: Type.String({
    description: 'Text in name, title or description, in any case.',
    maxLength: 200,
    pattern: '^[^\\u0000]*$',
  }),
  updated_since: Type.String({
    description: 'Only what changed later (RFC 3339); deleted versions too. Empty: as if it were absent.',
    pattern: '^(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d))?$',
    examples: ['2026-11-20T00:00:00Z'],
  }),
  version: Type.String({ description: 'A version or `latest`.', maxLength: 255 }),
  include_deleted: includeDeleted,
}

const official = Type.Object({
  status: Type.Enum(['active', 'deprecated', 'deleted'], { type: 'string' }),
  statusMessage: Type.Optional(text),
  statusChangedAt: time,
  publishedAt: time,
  updatedAt: time,
  isLatest: Type.Boolean(),
})
const meta = Type.Object({ 'io.modelcontextprotocol.registry/official': official })
const document = Type.Object({ name: text, version: text })

const versionOf = (key: 'server' | 'skill'): TSchema => Type.Object({ [key]: document, _meta: meta })
const listOf = (key: 'servers' | 'skills', item: TSchema): TSchema =>
  Type.Object({
    [key]: Type.Array(item),
    metadata: Type.Object({ count: Type.Integer({ minimum: 0 }), nextCursor: Type.Optional(text) }),
  })

export const serverVersion = versionOf('server')
export const serverList = listOf('servers', serverVersion)
export const skillVersion = versionOf('skill')
export const skillList = listOf('skills', skillVersion)
