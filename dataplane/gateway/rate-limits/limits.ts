import { parseDuration } from '../../../crds/shared/duration.ts'
import type { GatewayConfig } from '../../config/gateway.ts'

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
type Buckets = Pick<RateLimiting, 'shared' | 'perUser'>

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

function limitsOf({ shared, perUser }: Buckets, tool: string | undefined): readonly Limit[] {
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
  { maxTokens, refillPeriod }: NonNullable<Buckets['shared']>,
): Limit {
  return { id, bucket, tool, maxTokens, refillPeriod, periodMs: parseDuration(refillPeriod) }
}
