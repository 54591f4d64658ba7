import { parseDuration } from '../../../crds/settings/duration.ts'
import type { GatewayConfig } from '../../config/gateway.ts'

/** A limit whose bucket is empty, and how long it takes until a call may be made. */
export interface Empty {
  readonly limit: Limit
  readonly waitMs: number
}

/** The empty ones among the buckets of a call; none where one token was taken from each. */
export type Taken = readonly Empty[]

/** Where buckets are kept. */
export interface Buckets {
  readonly store: 'memory' | 'redis'
  /**
   * Takes a token from the bucket of each of the limits, or from none where one of them is empty. `user`: whose buckets,
   * for limits per user. A promise rejects where it can't be known.
   */
  take(limits: readonly Limit[], user: string): Taken | Promise<Taken>
}

export const ALL_TAKEN: Taken = []

/** What is left in a bucket at a time, in milliseconds of any clock that all its calls have in common. */
export interface Level {
  tokens: number
  at: number
}

/** Periods are divided by tokens: what is missing to a whole token by no more than this is rounding. */
export const ROUNDING = 1e-6

/** One limit of the configuration: a bucket for all callers, or one for each of them. */
export interface Limit {
  /** In the names of its buckets: of no two limits the same. */
  readonly id: string
  readonly bucket: 'shared' | 'perUser'
  /** The tool whose calls it counts, by the name that clients call; undefined where it counts all. */
  readonly tool: string | undefined
  /** Calls that the full bucket holds. */
  readonly maxTokens: number
  /** Time in which an empty bucket fills up, as it is written and in milliseconds. */
  readonly refillPeriod: string
  readonly periodMs: number
}

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type BucketSettings = Pick<RateLimiting, 'shared' | 'perUser'>

/** Name of a bucket among all of a gateway. A digest holds no colon, so that it ends the name of a tool. */
export const bucketName = ({ id, bucket }: Limit, user: string): string => (bucket === 'perUser' ? `${id}:${user}` : id)

/** What a bucket holds now; `level` undefined: nobody has taken from it, and it is full. */
export function tokensAt(level: Level | undefined, { maxTokens, periodMs }: Limit, now: number): number {
  if (level === undefined) return maxTokens
  // A clock that was set back refills nothing, and takes nothing away.
  const passed = Math.max(0, now - level.at)
  return Math.min(maxTokens, level.tokens + (passed * maxTokens) / periodMs)
}

/** How long it takes, in milliseconds, until a bucket of so many tokens holds a whole one; 0 where it does. */
export const waitFor = (tokens: number, { maxTokens, periodMs }: Limit): number =>
  tokens >= 1 - ROUNDING ? 0 : ((1 - tokens) * periodMs) / maxTokens

/** The limits of a configuration, and which of them count the calls of a tool. */
export class Limits {
  readonly all: readonly Limit[]
  readonly #ofAnyTool: readonly Limit[]
  readonly #byTool: ReadonlyMap<string, readonly Limit[]>

  constructor(config: RateLimiting | undefined) {
    this.#ofAnyTool = limitsOf(config ?? {}, undefined)
    const ofTools = (config?.tools ?? []).map((tool) => [tool.name, limitsOf(tool, tool.name)] as const)
    this.#byTool = new Map(ofTools.map(([name, limits]) => [name, [...this.#ofAnyTool, ...limits]]))
    this.all = [...this.#ofAnyTool, ...ofTools.flatMap(([, limits]) => limits)]
  }

  forTool(name: string): readonly Limit[] {
    return this.#byTool.get(name) ?? this.#ofAnyTool
  }
}

function limitsOf({ shared, perUser }: BucketSettings, tool: string | undefined): readonly Limit[] {
  const of = tool === undefined ? '' : `:${tool}`
  return [
    ...(shared === undefined ? [] : [limitOf(`shared${of}`, 'shared', tool, shared)]),
    ...(perUser === undefined ? [] : [limitOf(`user${of}`, 'perUser', tool, perUser)]),
  ]
}

function limitOf(
  id: string,
  bucket: Limit['bucket'],
  tool: string | undefined,
  { maxTokens, refillPeriod }: NonNullable<BucketSettings['shared']>,
): Limit {
  return { id, bucket, tool, maxTokens, refillPeriod, periodMs: parseDuration(refillPeriod) }
}
