import { parseDuration } from '../../../crds/settings/duration.ts'
import type { GatewayConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { duplicates } from './duplicates.ts'

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type Buckets = Pick<RateLimiting, 'shared' | 'perUser'>

export function rateLimitFindings(config: RateLimiting | undefined, at: string): readonly Finding[] {
  if (config === undefined) return []
  const { tools = [] } = config
  const isEmpty = !hasBucket(config) && tools.length === 0
  return [
    ...(isEmpty ? [{ pointer: at, message: 'set at least one of shared, perUser and tools' }] : []),
    ...bucketFindings(config, at),
    ...duplicates(tools, ({ name }) => name, `${at}/tools`, '/name'),
    ...tools.flatMap((tool, index) => [
      ...(hasBucket(tool)
        ? []
        : [{ pointer: `${at}/tools/${index}`, message: 'a tool needs shared, perUser or both' }]),
      ...bucketFindings(tool, `${at}/tools/${index}`),
    ]),
  ]
}

const hasBucket = ({ shared, perUser }: Buckets): boolean => shared !== undefined || perUser !== undefined

const bucketFindings = (buckets: Buckets, at: string): readonly Finding[] =>
  (['shared', 'perUser'] as const).flatMap((name) => {
    const bucket = buckets[name]
    return bucket === undefined || parseDuration(bucket.refillPeriod) > 0
      ? []
      : [{ pointer: `${at}/${name}/refillPeriod`, message: 'must be longer than zero' }]
  })
