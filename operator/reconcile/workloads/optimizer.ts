import type { VirtualMCPServer } from '../../../crds/index.ts'
import type { OptimizerConfig } from '../../../dataplane/config/search/optimizer.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from '../references/resolver.ts'
import { secretFile } from '../references/secret-file.ts'

type Optimizer = NonNullable<NonNullable<VirtualMCPServer['spec']['config']>['optimizer']>

/** Tool search as the gateway reads it; the key of its embedding service becomes a file. What can't be had is noted. */
export function optimizerOf(
  optimizer: Optimizer | undefined,
  resolver: Resolver,
  mounts: Mounts,
): { readonly optimizer?: OptimizerConfig } {
  if (optimizer === undefined) return {}
  const { embeddingApiKeySecretRef, embeddingAllowPrivateIP, embeddingHeaders, ...fields } = optimizer
  const { embeddingProvider, embeddingServiceTimeout, ...rest } = fields
  const keyFile = secretFile(embeddingApiKeySecretRef, resolver, mounts)
  const service = rest.embeddingService
  return {
    optimizer: {
      ...rest,
      // Both have defaults, and are there where nobody has asked for a service.
      ...(service === undefined && embeddingProvider === 'tei' ? {} : { embeddingProvider }),
      ...(service === undefined ? {} : { embeddingServiceTimeout }),
      ...(embeddingHeaders === undefined ? {} : { embeddingHeaders: sortedKeys(embeddingHeaders) }),
      ...(keyFile === undefined ? {} : { embeddingApiKeyFile: keyFile }),
      ...(embeddingAllowPrivateIP || isOfCluster(service) ? { embeddingAllowPrivateIP: true } : {}),
    },
  }
}

/** Names of Services as pods of their namespace, and of others, write them. */
const OF_CLUSTER = /^[a-z0-9-]+$|\.svc(\.cluster\.local)?\.?$/

/** Whether a URL leads to a Service of the cluster by its name. */
const isOfCluster = (service: string | undefined): boolean =>
  service !== undefined && OF_CLUSTER.test(URL.parse(service)?.hostname ?? '.')
