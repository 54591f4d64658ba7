/**
 * What a data plane reports on its admin listener's `/status`: the gateway and the registry answer by these schemas, and the
 * operator and standalone validate the answers against them.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { compile } from './schema-violations.ts'

const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

/** Hash of the configuration in force. */
const config = Type.String()
/** What is wrong with a newer configuration that was refused. */
const refused = Type.Array(
  Type.Object({
    pointer: Type.String(),
    message: Type.String(),
    line: Type.Optional(Type.Number()),
    file: Type.Optional(Type.String()),
  }),
)

/** A warning for people; the gateway serves all the same. */
const problem = Type.Object({ severity: Type.Literal('warning'), code: Type.String(), message: Type.String() })

const backend = Type.Object({
  name: Type.String(),
  url: Type.String(),
  health: Type.Enum(['healthy', 'degraded', 'unhealthy', 'unauthenticated', 'unknown']),
  /** Revision of MCP that it speaks; null until that is known. */
  revision: orNull(Type.String()),
  circuit: Type.Enum(['closed', 'open', 'half-open']),
  /** `at` is RFC 3339. */
  lastError: orNull(Type.Object({ code: Type.String(), message: Type.String(), at: Type.String() })),
  tools: Type.Number(),
  /** Null until its tools are known. */
  latencyMs: orNull(Type.Number()),
})

/** What has gone wrong at a provider that users log in at, in its own words where it has said something. No token is in it. */
const providerFailure = Type.Object({
  code: Type.String(),
  at: Type.String(),
  /** What the gateway was doing there. */
  step: Type.Optional(Type.String()),
  message: Type.Optional(Type.String()),
  status: Type.Optional(Type.Number()),
  error: Type.Optional(Type.String()),
  errorDescription: Type.Optional(Type.String()),
  /** The claim, or member of the metadata, that does not fit; its values where they are no secrets. */
  claim: Type.Optional(Type.String()),
  expected: Type.Optional(Type.String()),
  found: Type.Optional(Type.String()),
  /** What to do about it. */
  next: Type.Optional(Type.String()),
})

/** The embedded authorization server; times are RFC 3339. */
const authServer = Type.Object({
  issuer: Type.String(),
  /** `answers` is null until it was asked. */
  storage: Type.Object({ type: Type.Enum(['memory', 'redis']), answers: orNull(Type.Boolean()) }),
  /** Ids (`kid`) of the keys that verify; the first signs. None while the keys can't be read. */
  keys: Type.Array(Type.String()),
  providers: Type.Array(
    Type.Object({
      name: Type.String(),
      lastSuccess: orNull(Type.String()),
      lastError: orNull(providerFailure),
      /** How a provider, or the person there, last refused a login; absent: never. */
      lastRefusal: Type.Optional(providerFailure),
    }),
  ),
})

/** Limits of tool calls; `lastRefused` is RFC 3339. */
const rateLimits = Type.Object({
  /** Where the buckets are. */
  store: Type.Enum(['memory', 'redis']),
  allowed: Type.Number(),
  refused: Type.Number(),
  /** Calls let through since Redis was away. */
  unchecked: Type.Number(),
  limits: Type.Array(
    Type.Object({
      bucket: Type.Enum(['shared', 'perUser']),
      /** Null where it counts the calls of all tools. */
      tool: orNull(Type.String()),
      maxTokens: Type.Number(),
      refillPeriod: Type.String(),
      refused: Type.Number(),
      lastRefused: orNull(Type.String()),
      /** Whether somebody has to wait now: everybody where it is `shared`, some user where it is `perUser`. */
      refuses: Type.Boolean(),
    }),
  ),
})

/** How tools are found by what is meant; counts are of this process since its start. */
const embeddings = Type.Object({
  /** Requests of the embedding service, and those of them that gave nothing. */
  requests: Type.Number(),
  failures: Type.Number(),
  /** Searches by words and meaning, and those by words alone because the service could not be had. */
  hybridSearches: Type.Number(),
  wordsAlone: Type.Number(),
  /** Vectors in memory, and whether there are more on disk. */
  vectors: Type.Number(),
  vectorBytes: Type.Number(),
  kept: Type.Enum(['disk', 'memory']),
  /** What is wrong with the service; null where it has answered. */
  problem: orNull(Type.String()),
})

/** Tool search. */
const toolSearch = Type.Object({
  searches: Type.Number(),
  /** One for each list of tools that somebody sees and has searched of late, and what they take in memory. */
  indexes: Type.Number(),
  indexBytes: Type.Number(),
  /** Null without an embedding service. */
  embeddings: orNull(embeddings),
})

/** A composite tool that is shown; counts are of this process since its start. */
const workflow = Type.Object({
  name: Type.String(),
  running: Type.Number(),
  /** Ids of the steps that are under way. */
  steps: Type.Array(Type.String()),
  completed: Type.Number(),
  failed: Type.Number(),
})

const gatewayStatus = Type.Object({
  config,
  refused,
  problems: Type.Array(problem),
  sessions: Type.Number(),
  sessionStorage: Type.Enum(['memory', 'redis']),
  /** Null without one. */
  authServer: orNull(authServer),
  /** Null without limits. */
  rateLimits: orNull(rateLimits),
  /** Null where all tools are listed. */
  toolSearch: orNull(toolSearch),
  backends: Type.Array(backend),
  workflows: Type.Array(workflow),
})

/** How a source of a registry stands; times are RFC 3339, null where there is none yet. */
const source = Type.Object({
  name: Type.String(),
  state: Type.Enum(['waiting', 'running', 'ok', 'failed']),
  /** Whether a first attempt has ended. */
  tried: Type.Boolean(),
  lastAttempt: orNull(Type.String()),
  lastSuccess: orNull(Type.String()),
  nextRun: orNull(Type.String()),
  /** Attempts since the last success. */
  attempts: Type.Number(),
  error: orNull(Type.Object({ code: Type.String(), message: Type.String() })),
  servers: Type.Number(),
  skills: Type.Number(),
  /** How many entries were left out, and the first of them. */
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

/** Nobody changes an answer. */
type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T

export type GatewayStatus = Frozen<Static<typeof gatewayStatus>>
export type AuthServerStatus = Frozen<Static<typeof authServer>>
export type RateLimitStatus = Frozen<Static<typeof rateLimits>>
export type ToolSearchStatus = Frozen<Static<typeof toolSearch>>
export type BackendStatus = Frozen<Static<typeof backend>>
export type RegistryStatus = Frozen<Static<typeof registryStatus>>

/** The parts of an answer that are read: a data plane of another version may report less. Items are checked one by one. */
const reportedStatus = Type.Object({
  config: Type.Optional(config),
  problems: Type.Optional(Type.Array(Type.Unknown())),
  backends: Type.Optional(Type.Array(Type.Unknown())),
  sources: Type.Optional(Type.Array(Type.Unknown())),
})
/** What is read of a backend: whether it has been asked. */
const reportedBackend = Type.Object({
  url: backend.properties.url,
  latencyMs: backend.properties.latencyMs,
  lastError: orNull(Type.Object({ at: Type.String() })),
})
/** What is read of a backend's health; only its name and its health must be there. */
const reportedHealth = Type.Object({
  name: backend.properties.name,
  health: backend.properties.health,
  revision: Type.Optional(backend.properties.revision),
  circuit: Type.Optional(backend.properties.circuit),
  lastError: Type.Optional(
    orNull(Type.Object({ code: Type.Optional(Type.String()), message: Type.Optional(Type.String()) })),
  ),
})
/** What is read of a source; only its name must be there. */
const reportedSource = Type.Object({
  name: source.properties.name,
  lastSuccess: Type.Optional(source.properties.lastSuccess),
  error: Type.Optional(
    orNull(Type.Object({ code: Type.Optional(Type.String()), message: Type.Optional(Type.String()) })),
  ),
  servers: Type.Optional(source.properties.servers),
  skills: Type.Optional(source.properties.skills),
  leftOut: Type.Optional(source.properties.leftOut),
})

export type ReportedStatus = Frozen<Static<typeof reportedStatus>>
export type ReportedBackend = Frozen<Static<typeof reportedBackend>>
export type ReportedSource = Frozen<Static<typeof reportedSource>>

export const isReportedStatus = guard(reportedStatus)
export const isReportedProblem = guard(problem)
export const isReportedBackend = guard(reportedBackend)
export const isReportedHealth = guard(reportedHealth)
export const isReportedSource = guard(reportedSource)

/** Makes the check of a value against a schema; the schema is compiled at its first use. */
function guard<S extends TSchema>(schema: S): (value: unknown) => value is Frozen<Static<S>> {
  let violations: ReturnType<typeof compile> | undefined
  return function isOfSchema(value): value is Frozen<Static<S>> {
    violations ??= compile(schema, { all: false })
    return violations(value).length === 0
  }
}
