/** The schemas of `/status`. The data planes answer by them; the operator and standalone validate against them. */
import { type Static, type TSchema, Type } from 'typebox'
import { compile } from './schema-violations.ts'

const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

const config = Type.String()
const refused = Type.Array(
  Type.Object({
    pointer: Type.String(),
    message: Type.String(),
    line: Type.Optional(Type.Number()),
    file: Type.Optional(Type.String()),
  }),
)

const problem = Type.Object({ severity: Type.Literal('warning'), code: Type.String(), message: Type.String() })

/** Numbers of definitions by whether they were approved. */
const definitions = Type.Object({
  approved: Type.Number(),
  withheld: Type.Number(),
  reported: Type.Number(),
  /** Names that have pins and are not listed. */
  missing: Type.Number(),
})

const backend = Type.Object({
  name: Type.String(),
  url: Type.String(),
  health: Type.Enum(['healthy', 'degraded', 'unhealthy', 'unauthenticated', 'unknown']),
  revision: orNull(Type.String()),
  circuit: Type.Enum(['closed', 'open', 'half-open']),
  lastError: orNull(Type.Object({ code: Type.String(), message: Type.String(), at: Type.String() })),
  since: orNull(Type.String()),
  tools: Type.Number(),
  /** Null until the backend's tools are known. */
  latencyMs: orNull(Type.Number()),
  /** Definitions by whether they were approved; null while none is checked. Absent in older pods. */
  definitions: Type.Optional(orNull(definitions)),
})

/** A failure at a provider where users log in, in the provider's own words if it gave any. No token is in it. */
const providerFailure = Type.Object({
  code: Type.String(),
  at: Type.String(),
  step: Type.Optional(Type.String()),
  message: Type.Optional(Type.String()),
  status: Type.Optional(Type.Number()),
  error: Type.Optional(Type.String()),
  errorDescription: Type.Optional(Type.String()),
  /** The claim, or member of the metadata, that does not fit, with its values if they are no secrets. */
  claim: Type.Optional(Type.String()),
  expected: Type.Optional(Type.String()),
  found: Type.Optional(Type.String()),
  next: Type.Optional(Type.String()),
})

/** The embedded authorization server; times are RFC 3339. */
const authServer = Type.Object({
  issuer: Type.String(),
  /** `answers` is null until it was asked. */
  storage: Type.Object({ type: Type.Enum(['memory', 'redis']), answers: orNull(Type.Boolean()) }),
  /** Ids (`kid`) of the keys that verify; the first signs. Empty while the keys can't be read. */
  keys: Type.Array(Type.String()),
  providers: Type.Array(
    Type.Object({
      name: Type.String(),
      lastSuccess: orNull(Type.String()),
      lastError: orNull(providerFailure),
      /** The provider's, or its user's, latest refusal of a login; absent if there was none. */
      lastRefusal: Type.Optional(providerFailure),
    }),
  ),
  /** Other issuers whose tokens are taken; absent if there are none. */
  trustedIssuers: Type.Optional(
    Type.Array(
      Type.Object({
        issuer: Type.String(),
        /** The reason why its keys could not be read last time: `KeysUnreachable` or `IssuerNameMismatch`. */
        problem: orNull(Type.Object({ code: Type.String(), message: Type.String() })),
      }),
    ),
  ),
})

/** Limits of tool calls; `lastRefused` is RFC 3339. */
const rateLimits = Type.Object({
  store: Type.Enum(['memory', 'redis']),
  allowed: Type.Number(),
  refused: Type.Number(),
  /** Calls let through without a check since Redis became unreachable. */
  unchecked: Type.Number(),
  limits: Type.Array(
    Type.Object({
      bucket: Type.Enum(['shared', 'perUser']),
      tool: orNull(Type.String()),
      maxTokens: Type.Number(),
      refillPeriod: Type.String(),
      refused: Type.Number(),
      lastRefused: orNull(Type.String()),
      /** Tells whether the limit refuses calls now: of everybody if it is `shared`, of some user if it is `perUser`. */
      refuses: Type.Boolean(),
    }),
  ),
})

const embeddings = Type.Object({
  requests: Type.Number(),
  failures: Type.Number(),
  /** Searches by words and meaning, and those by words alone because the service was unavailable. */
  hybridSearches: Type.Number(),
  wordsAlone: Type.Number(),
  /** Vectors in memory, and whether there are more on disk. */
  vectors: Type.Number(),
  vectorBytes: Type.Number(),
  kept: Type.Enum(['disk', 'memory']),
  problem: orNull(Type.String()),
})

const toolSearch = Type.Object({
  searches: Type.Number(),
  /** One index for each list of tools that was searched recently, and their memory. */
  indexes: Type.Number(),
  indexBytes: Type.Number(),
  embeddings: orNull(embeddings),
})

const workflow = Type.Object({
  name: Type.String(),
  running: Type.Number(),
  steps: Type.Array(Type.String()),
  completed: Type.Number(),
  failed: Type.Number(),
})

const catalogGate = Type.Object({
  mode: Type.Enum(['report', 'enforce']),
  registries: Type.Array(
    Type.Object({
      name: Type.String(),
      /** `waiting` until it was asked once, `stale` once its rows are too old to be used. */
      state: Type.Enum(['waiting', 'current', 'unavailable', 'stale']),
      problem: orNull(Type.String()),
      /** The seconds since it confirmed its rows; null if it never has. */
      ageSeconds: orNull(Type.Number()),
    }),
  ),
  members: Type.Array(
    Type.Object({
      name: Type.String(),
      /** Why nobody may use it; null if the claims of callers decide. */
      reason: orNull(Type.Enum(['NotInCatalog', 'LocationMismatch', 'EntryDeleted'])),
      detail: orNull(Type.String()),
      deprecated: Type.Boolean(),
    }),
  ),
})

const gatewayStatus = Type.Object({
  config,
  refused,
  problems: Type.Array(problem),
  sessions: Type.Number(),
  sessionStorage: Type.Enum(['memory', 'redis']),
  authServer: orNull(authServer),
  rateLimits: orNull(rateLimits),
  toolSearch: orNull(toolSearch),
  catalogGate: orNull(catalogGate),
  backends: Type.Array(backend),
  workflows: Type.Array(workflow),
})

const source = Type.Object({
  name: Type.String(),
  state: Type.Enum(['waiting', 'running', 'ok', 'failed']),
  /** True once the first attempt has ended. */
  tried: Type.Boolean(),
  lastAttempt: orNull(Type.String()),
  lastSuccess: orNull(Type.String()),
  nextRun: orNull(Type.String()),
  attempts: Type.Number(),
  error: orNull(Type.Object({ code: Type.String(), message: Type.String() })),
  servers: Type.Number(),
  skills: Type.Number(),
  leftOut: Type.Number(),
  problems: Type.Array(Type.Unknown()),
})

const registryStatus = Type.Object({
  config,
  refused,
  problems: Type.Array(problem),
  registries: Type.Array(Type.Unknown()),
  sources: Type.Array(source),
})

type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T

export type GatewayStatus = Frozen<Static<typeof gatewayStatus>>
export type AuthServerStatus = Frozen<Static<typeof authServer>>
export type RateLimitStatus = Frozen<Static<typeof rateLimits>>
export type CatalogGateStatus = Frozen<Static<typeof catalogGate>>
export type ToolSearchStatus = Frozen<Static<typeof toolSearch>>
export type BackendStatus = Frozen<Static<typeof backend>>
export type RegistryStatus = Frozen<Static<typeof registryStatus>>

/** The parts of an answer that are read: another version may report less. */
const reportedStatus = Type.Object({
  config: Type.Optional(config),
  problems: Type.Optional(Type.Array(Type.Unknown())),
  backends: Type.Optional(Type.Array(Type.Unknown())),
  sources: Type.Optional(Type.Array(Type.Unknown())),
  catalogGate: Type.Optional(Type.Unknown()),
})
const reportedError = Type.Optional(
  orNull(Type.Object({ code: Type.Optional(Type.String()), message: Type.Optional(Type.String()) })),
)
const reportedBackend = Type.Object({
  url: backend.properties.url,
  latencyMs: backend.properties.latencyMs,
  lastError: orNull(Type.Object({ at: Type.String() })),
})
const reportedHealth = Type.Object({
  name: backend.properties.name,
  health: backend.properties.health,
  revision: Type.Optional(backend.properties.revision),
  circuit: Type.Optional(backend.properties.circuit),
  lastError: reportedError,
})
const reportedSource = Type.Object({
  name: source.properties.name,
  lastSuccess: Type.Optional(source.properties.lastSuccess),
  error: reportedError,
  servers: Type.Optional(source.properties.servers),
  skills: Type.Optional(source.properties.skills),
  leftOut: Type.Optional(source.properties.leftOut),
})

/** The report on a backend’s definitions; absent if the backend has no pins. */
const reportedDefinitions = Type.Object({
  name: backend.properties.name,
  definitions,
})

export type ReportedStatus = Frozen<Static<typeof reportedStatus>>
export type ReportedBackend = Frozen<Static<typeof reportedBackend>>
export type ReportedSource = Frozen<Static<typeof reportedSource>>

export const isReportedStatus = guard(reportedStatus)
export const isReportedProblem = guard(problem)
export const isReportedBackend = guard(reportedBackend)
export const isReportedDefinitions = guard(reportedDefinitions)
export const isReportedHealth = guard(reportedHealth)
export const isReportedSource = guard(reportedSource)
export const isReportedGate = guard(catalogGate)

function guard<S extends TSchema>(schema: S): (value: unknown) => value is Frozen<Static<S>> {
  let violations: ReturnType<typeof compile> | undefined
  return function isOfSchema(value): value is Frozen<Static<S>> {
    violations ??= compile(schema, { all: false })
    return violations(value).length === 0
  }
}
