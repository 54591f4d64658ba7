import { parseDuration } from '../../../crds/settings/duration.ts'
import type { GatewayConfig } from '../../config/gateway.ts'

/** A limit whose bucket is empty, and the time until a call may be made. */
export interface Empty {
  readonly limit: Limit
  readonly waitMs: number
}

/** The empty buckets of a call; none if one token was taken from each. */
export type Taken = readonly Empty[]

export interface Buckets {
  readonly store: 'memory' | 'redis'
  /**
   * Takes a token from the bucket of each limit, or from none. `user`: the owner of buckets per user. Rejects if the
   * store is unreachable.
   */
  take(limits: readonly Limit[], user: string): Taken | Promise<Taken>
}

export const ALL_TAKEN: Taken = []

/** The tokens in a bucket at a time, in milliseconds of any clock that all its calls share. */
export interface Level {
  tokens: number
  at: number
}

/** The rounding error: periods are divided by tokens, so a token that is short by no more than this counts as whole. */
export const ROUNDING = 1e-6

export interface Limit {
  /** The limit's part of its buckets' names, unique among limits. */
  readonly id: string
  readonly bucket: 'shared' | 'perUser'
  readonly tool: string | undefined
  readonly maxTokens: number
  /** The time in which an empty bucket fills up, as it is written and in milliseconds. */
  readonly refillPeriod: string
  readonly periodMs: number
}

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type BucketSettings = Pick<RateLimiting, 'shared' | 'perUser'>

/** Returns the name of a bucket in a gateway. A digest has no colon, so the colon ends the name of a tool. */
export const bucketName = ({ id, bucket }: Limit, user: string): string => (bucket === 'perUser' ? `${id}:${user}` : id)

/** Returns the tokens in a bucket now; `level` is undefined for an unused bucket, which is full. */
export function tokensAt(level: Level | undefined, { maxTokens, periodMs }: Limit, now: number): number {
  if (level === undefined) return maxTokens
  // A clock that was set back neither refills a bucket nor empties it.
  const passed = Math.max(0, now - level.at)
  return Math.min(maxTokens, level.tokens + (passed * maxTokens) / periodMs)
}

/** Returns the time, in milliseconds, until a bucket with this many tokens holds a whole one; 0 if it does. */
export const waitFor = (tokens: number, { maxTokens, periodMs }: Limit): number =>
  tokens >= 1 - ROUNDING ? 0 : ((1 - tokens) * periodMs) / maxTokens

/** The limits of a configuration, and the selection of those that count a tool's calls. */
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
