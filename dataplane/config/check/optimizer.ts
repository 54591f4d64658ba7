import { parseDuration } from '../../../crds/settings/duration.ts'
import { SERVICE_TIMEOUT } from '../../../crds/settings/gateway/defaults.ts'
import { gatewayHeaders, HEADER_NAME, HEADER_VALUE } from '../../../crds/settings/header-rules.ts'
import { escapeStep } from '../../../crds/settings/json.ts'
import type { OptimizerConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

const isName = new RegExp(HEADER_NAME)
const isValue = new RegExp(HEADER_VALUE)
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

/** The defaults, which the schema fills in. */
const usual: OptimizerConfig = { embeddingServiceTimeout: SERVICE_TIMEOUT }

export function optimizerFindings(optimizer: OptimizerConfig | undefined, at: string): readonly Finding[] {
  if (optimizer === undefined) return []
  const { embeddingService: service } = optimizer
  return service === undefined
    ? withoutService(optimizer, at)
    : [...serviceFindings(optimizer, service, at), ...headerFindings(optimizer, at), ...numberFindings(optimizer, at)]
}

const withoutService = (optimizer: OptimizerConfig, at: string): readonly Finding[] => [
  ...OF_A_SERVICE.filter((field) => (optimizer[field] ?? usual[field]) !== usual[field]).map((field) => ({
    pointer: `${at}/${field}`,
    message: 'needs embeddingService',
  })),
  ...(optimizer.embeddingProvider === 'openai'
    ? [{ pointer: `${at}/embeddingService`, message: 'is required under embeddingProvider openai' }]
    : []),
]

function serviceFindings(optimizer: OptimizerConfig, service: string, at: string): readonly Finding[] {
  const { embeddingProvider, embeddingModel, embeddingServiceTimeout, embeddingAllowPrivateIP } = optimizer
  const pointer = `${at}/embeddingService`
  const url = URL.parse(service)
  return [
    ...urlFindings(service, pointer),
    ...addressFindings(service, pointer, {
      allowPrivateIP: embeddingAllowPrivateIP,
      allowLoopback: url !== null && isLoopback(url),
      allowedBy: 'embeddingAllowPrivateIP',
    }),
    ...(embeddingProvider === 'openai' && embeddingModel === undefined
      ? [{ pointer: `${at}/embeddingModel`, message: 'is required under embeddingProvider openai' }]
      : []),
    ...(embeddingServiceTimeout !== undefined && parseDuration(embeddingServiceTimeout) < 1
      ? [{ pointer: `${at}/embeddingServiceTimeout`, message: 'must be at least 1ms' }]
      : []),
  ]
}

function headerFindings({ embeddingHeaders = {}, embeddingProvider }: OptimizerConfig, at: string): readonly Finding[] {
  const pointer = `${at}/embeddingHeaders`
  const names = Object.keys(embeddingHeaders)
  const lower = names.map((name) => name.toLowerCase())
  return [
    ...(names.length > 0 && embeddingProvider !== 'openai'
      ? [{ pointer, message: 'are for embeddingProvider openai' }]
      : []),
    ...names.flatMap((name, index) => {
      const own = `${pointer}/${escapeStep(name)}`
      if (!isName.test(name)) return [{ pointer: own, message: 'is not a header name' }]
      if (RESERVED.has(name.toLowerCase()))
        return [{ pointer: own, message: 'this header is set by the gateway itself' }]
      if (lower.indexOf(name.toLowerCase()) !== index) return [{ pointer: own, message: 'this header is set twice' }]
      return isValue.test(embeddingHeaders[name] as string) ? [] : [{ pointer: own, message: 'is not a header value' }]
    }),
  ]
}

const numberFindings = (optimizer: OptimizerConfig, at: string): readonly Finding[] =>
  (
    [
      ['hybridSearchSemanticRatio', 1],
      ['semanticDistanceThreshold', 2],
    ] as const
  ).flatMap(([field, most]) =>
    Number(optimizer[field] ?? 0) > most ? [{ pointer: `${at}/${field}`, message: `must be from 0 to ${most}` }] : [],
  )
