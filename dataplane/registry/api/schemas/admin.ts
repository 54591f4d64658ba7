import Type, { type TSchema } from 'typebox'
import { asFile, extend } from '../../../../crds/settings/file-form.ts'
import { label as labelOf } from '../../../../crds/settings/schema.ts'
import { apiSourceSchema, claims, ROLES, registrySchema } from '../../../config/registry.ts'
import { orEmpty, pageSize } from './catalog.ts'
import { serverJson, skillJson } from './documents.ts'

const strict = { additionalProperties: false }
const time = Type.String({ format: 'date-time' })
const timeOrNull = Type.Union([time, Type.Null()])
const text = Type.String()
const count = Type.Integer({ minimum: 0 })

const label = (description: string) => asFile(labelOf('registry', description))
const claimsMap = asFile(claims('Claims.'))
export const entryType = Type.Enum(['server', 'skill'], { type: 'string' })
export const entryName = Type.String({
  description: '`namespace/name`, its slash as `%2F`.',
  minLength: 1,
  maxLength: 255,
})
export const versionName = Type.String({
  description: 'A version, not `latest`.',
  pattern: '^(?!latest$)[^\\u0000-\\u001f\\u007f-\\u009f]+$',
  minLength: 1,
  maxLength: 255,
})
export const sourceQuery = Type.String({
  description: 'Name of the source, where the name is in several managed ones.',
  maxLength: 63,
})
export const sourceName = label('Name of the source.')
export const registryName = label('Name of the registry.')

const origin = Type.Enum(['config', 'api'], {
  type: 'string',
  description: 'The creator: the configuration file, whose objects change only there, or the API.',
})
const managed = { claims: claimsMap, origin, createdAt: time, updatedAt: time }

export const wait = orEmpty(Type.Boolean(), { description: 'Answer only when the pass has ended.', default: false })

export const cursor = Type.String({ description: '`nextCursor` of the page before.', maxLength: 2048 })
export const limit = pageSize('Entries of a page.')

export const syncState = Type.Object({
  state: Type.Enum(['waiting', 'running', 'ok', 'failed'], { type: 'string' }),
  lastAttempt: timeOrNull,
  lastSuccess: timeOrNull,
  nextRun: timeOrNull,
  attempts: Type.Integer({ minimum: 0, description: 'Since the last success.' }),
  error: Type.Union([Type.Object({ code: text, message: text }), Type.Null()]),
  servers: count,
  skills: count,
})

/** Returns the optional fields of an output, of any form: they were checked as input. */
const describeOutput = (fields: Readonly<Record<string, TSchema>>) =>
  Object.fromEntries(
    Object.keys(fields)
      .filter((name) => name !== 'name' && name !== 'claims')
      .map((name) => [name, Type.Optional(Type.Unsafe<object>({ type: 'object' }))]),
  )
const sourceParts = {
  name: text,
  ...describeOutput(apiSourceSchema.properties),
  ...managed,
  sync: Type.Optional(syncState),
}
const sourceAnswer = Type.Object(sourceParts)
export const sourceDetailAnswer = Type.Object({
  ...sourceParts,
  leftOut: Type.Optional(count),
  problems: Type.Optional(
    Type.Array(Type.Object({ pointer: text, message: text, served: Type.Optional(Type.Boolean()) }), {
      description:
        'Entries that were left out, with their place in the source and the reason; only the first ones. An entry with `served` has a fault and is served nevertheless.',
    }),
  ),
})
export const sourcesAnswer = Type.Object({ sources: Type.Array(sourceAnswer) })

export const registryAnswer = Type.Object({ name: text, sources: Type.Array(text), ...managed })
export const registriesAnswer = Type.Object({ registries: Type.Array(registryAnswer) })

/** The name is in the path. A body may repeat it. */
export const sourceBody = extend(apiSourceSchema, { name: Type.Optional(label('Name of the source.')) })
export const newSourceBody = apiSourceSchema
export const registryBody = extend(registrySchema, { name: Type.Optional(label('Name of the registry.')) })
export const newRegistryBody = registrySchema

const versionSummary = Type.Object({
  version: text,
  title: Type.Optional(text),
  description: Type.Optional(text),
  createdAt: time,
  updatedAt: time,
})
const metadata = Type.Object({ count, nextCursor: Type.Optional(text) })
const entry = { type: entryType, name: text, claims: claimsMap, versions: Type.Array(versionSummary) }
export const sourceEntriesAnswer = Type.Object({ entries: Type.Array(Type.Object(entry)), metadata })
export const registryEntriesAnswer = Type.Object({
  entries: Type.Array(Type.Object({ ...entry, source: text })),
  metadata,
})

export const gateWait = Type.String({
  description: 'With If-None-Match: the time to wait for another revision, at most 60s.',
  pattern: '^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$',
  maxLength: 32,
})
const textMembers = (...names: readonly string[]) =>
  Type.Object(Object.fromEntries(names.map((name) => [name, Type.Optional(text)])))
export const gateAnswer = Type.Object({
  revision: text,
  mode: Type.Enum(['anonymous', 'auth-only', 'full'], { type: 'string', description: 'The level of authorization.' }),
  claims: claimsMap,
  unlabelled: Type.Optional(
    Type.Enum(['deny'], { type: 'string', description: 'A registry without claims is closed to everybody.' }),
  ),
  servers: Type.Array(
    Type.Object({
      name: text,
      version: text,
      status: Type.Enum(['active', 'deprecated', 'deleted'], { type: 'string' }),
      claims: claimsMap,
      remotes: Type.Array(textMembers('type', 'url')),
      packages: Type.Array(textMembers('registryType', 'identifier', 'version', 'fileSha256')),
      kubernetes: Type.Optional(Type.Object({ kind: text, namespace: text, name: text, uid: text })),
    }),
  ),
  nextCursor: Type.Optional(text),
})

const publication = { claims: Type.Optional(claimsMap), source: Type.Optional(label('The managed source.')) }
export const publishBody = Type.Object(
  { server: Type.Optional(serverJson), skill: Type.Optional(skillJson), ...publication },
  { ...strict, exactlyOne: ['server', 'skill'] },
)
export const publishAnswer = Type.Object({
  server: Type.Optional(Type.Unsafe<object>({ type: 'object' })),
  skill: Type.Optional(Type.Unsafe<object>({ type: 'object' })),
  claims: claimsMap,
  source: text,
})

export const claimsBody = Type.Object({ claims: claimsMap }, strict)
export const claimsAnswer = Type.Object({ claims: claimsMap })

export const statusBody = Type.Object(
  {
    status: Type.Enum(['active', 'deprecated'], { type: 'string' }),
    statusMessage: Type.Optional(
      Type.String({ description: 'Why, or what to use instead.', maxLength: 500, pattern: '^[^\\u0000]*$' }),
    ),
  },
  strict,
)

export const meAnswer = Type.Object({ subject: text, roles: Type.Array(Type.Enum([...ROLES], { type: 'string' })) })

export const explainBody = Type.Object(
  {
    registry: Type.String({ minLength: 1, maxLength: 63 }),
    type: entryType,
    name: Type.String({ minLength: 1, maxLength: 255 }),
    claims: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        description: 'Claims of another caller, as they would stand in a token; for super-admins.',
      }),
    ),
  },
  strict,
)
export const explainAnswer = Type.Object({
  visible: Type.Boolean(),
  checks: Type.Array(
    Type.Object({
      check: Type.Enum(['registry', 'entry', 'precedence'], { type: 'string' }),
      subject: text,
      allowed: Type.Boolean(),
      reason: text,
    }),
  ),
})
