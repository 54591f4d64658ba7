/** Parameters and answers of the consumer API (MCP registry API v0.1). */
import Type, { type TSchema, type TSchemaOptions } from 'typebox'
import { serverName } from './documents.ts'

const text = Type.String()
const time = Type.String({ format: 'date-time' })

export const registryParameter = Type.String({ description: 'Name of the registry.', minLength: 1, maxLength: 63 })
export const entryParameter = serverName('`namespace/name`, its slash as `%2F`.')
/** Any character but a control character. */
const PRINTED = '[^\\u0000-\\u001f\\u007f-\\u009f]'
export const versionParameter = Type.String({
  description: 'A version or `latest`.',
  pattern: `^${PRINTED}+$`,
  minLength: 1,
  maxLength: 255,
})

export const PAGE_SIZE = { usual: 30, largest: 100 } as const
export const LONGEST_SEARCH = 200

/** Accepts an empty parameter too, as some clients send it. It counts as absent. */
export const orEmpty = (schema: TSchema, options: TSchemaOptions): TSchema =>
  Type.Union([schema, Type.String({ maxLength: 0 })], options)
export const pageSize = (description: string) =>
  orEmpty(Type.Integer({ minimum: 1, maximum: PAGE_SIZE.largest }), { description, default: PAGE_SIZE.usual })

export const includeDeleted = orEmpty(Type.Boolean(), { description: 'Shows deleted versions too.', default: false })
export const listParameters = {
  cursor: Type.String({ description: '`nextCursor` of the page before, with the same query.', maxLength: 2048 }),
  limit: pageSize('Versions of a page.'),
  search: Type.String({
    description: 'Text in name, title or description, in any case.',
    maxLength: LONGEST_SEARCH,
    pattern: '^[^\\u0000]*$',
  }),
  updated_since: orEmpty(time, {
    description: 'Only versions that changed later (RFC 3339), including deleted ones.',
    examples: ['2026-11-20T00:00:00Z'],
  }),
  version: Type.String({ description: 'A version or `latest`.', pattern: `^${PRINTED}*$`, maxLength: 255 }),
  include_deleted: includeDeleted,
}

export const versionsParameters = { cursor: listParameters.cursor, include_deleted: includeDeleted }

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

const versionSchema = (key: 'server' | 'skill'): TSchema => Type.Object({ [key]: document, _meta: meta })
const listSchema = (key: 'servers' | 'skills', item: TSchema): TSchema =>
  Type.Object({
    [key]: Type.Array(item),
    metadata: Type.Object({ count: Type.Integer({ minimum: 0 }), nextCursor: Type.Optional(text) }),
  })

export const serverVersion = versionSchema('server')
export const serverList = listSchema('servers', serverVersion)
export const skillVersion = versionSchema('skill')
export const skillList = listSchema('skills', skillVersion)
