import { parseDuration } from '../../../crds/settings/duration.ts'
import { SERVICE_TIMEOUT } from '../../../crds/settings/gateway/defaults.ts'
import { gatewayHeaders } from '../../../crds/settings/header-rules.ts'
import type { OptimizerConfig } from '../gateway.ts'
import type { Findings } from '../load.ts'
import { headerNameFindings, headerValueFindings, listHeaders } from './headers.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

const RESERVED: ReadonlySet<string> = new Set([...gatewayHeaders, 'authorization'])

/** The fields that configure an embedding service, and so need one. */
const OF_A_SERVICE = [
  'embeddingModel',
  'embeddingHeaders',
  'embeddingApiKeyFile',
  'hybridSearchSemanticRatio',
  'semanticDistanceThreshold',
  'embeddingServiceTimeout',
] as const satisfies readonly (keyof OptimizerConfig)[]

const LARGEST = [
  ['hybridSearchSemanticRatio', 1],
  ['semanticDistanceThreshold', 2],
] as const

/** The defaults, which the schema fills in. */
const usual: OptimizerConfig = { embeddingServiceTimeout: SERVICE_TIMEOUT }

export function* optimizerFindings(optimizer: OptimizerConfig | undefined, at: string): Findings {
  if (optimizer === undefined) return
  const { embeddingService: service } = optimizer
  if (service === undefined) yield* withoutService(optimizer, at)
  else {
    yield* serviceFindings(optimizer, service, at)
    yield* headerFindings(optimizer, `${at}/embeddingHeaders`)
    yield* numberFindings(optimizer, at)
  }
}

function* withoutService(optimizer: OptimizerConfig, at: string): Findings {
  for (const field of OF_A_SERVICE)
    if ((optimizer[field] ?? usual[field]) !== usual[field])
      yield { pointer: `${at}/${field}`, message: 'needs embeddingService' }
  if (optimizer.embeddingProvider === 'openai')
    yield { pointer: `${at}/embeddingService`, message: 'is required under embeddingProvider openai' }
}

function* serviceFindings(optimizer: OptimizerConfig, service: string, at: string): Findings {
  const { embeddingProvider, embeddingModel, embeddingServiceTimeout, embeddingAllowPrivateIP } = optimizer
  const pointer = `${at}/embeddingService`
  const url = URL.parse(service)
  yield* urlFindings(service, pointer)
  yield* addressFindings(service, pointer, {
    allowPrivateIP: embeddingAllowPrivateIP,
    allowLoopback: url !== null && isLoopback(url),
    allowedBy: 'embeddingAllowPrivateIP',
  })
  if (embeddingProvider === 'openai' && embeddingModel === undefined)
    yield { pointer: `${at}/embeddingModel`, message: 'is required under embeddingProvider openai' }
  if (embeddingServiceTimeout !== undefined && parseDuration(embeddingServiceTimeout) < 1)
    yield { pointer: `${at}/embeddingServiceTimeout`, message: 'must be at least 1ms' }
}

function* headerFindings({ embeddingHeaders, embeddingProvider }: OptimizerConfig, pointer: string): Findings {
  const headers = listHeaders(embeddingHeaders ?? {}, pointer)
  if (headers.length > 0 && embeddingProvider !== 'openai')
    yield { pointer, message: 'are for embeddingProvider openai' }
  yield* headerNameFindings(headers, RESERVED, 'gateway')
  yield* headerValueFindings(headers)
}

function* numberFindings(optimizer: OptimizerConfig, at: string): Findings {
  for (const [field, most] of LARGEST)
    if (Number(optimizer[field] ?? 0) > most) yield { pointer: `${at}/${field}`, message: `must be from 0 to ${most}` }
}
