import { optimizer as schema } from '../../../crds/shared/gateway/optimizer.ts'
import type { Static } from '../../../crds/shared/schema.ts'
import type { OptimizerConfig } from '../../../dataplane/config/gateway.ts'
import { type MountPlace, mounted } from '../references/mounted.ts'

/** Tool search as the gateway reads it; the key of its embedding service becomes a file. What can't be had is noted. */
export function optimizerOf(
  optimizer: Static<typeof schema> | undefined,
  place: MountPlace,
): { readonly optimizer?: OptimizerConfig } {
  if (optimizer === undefined) return {}
  const { embeddingProvider, embeddingServiceTimeout, ...settings } = mounted(schema, optimizer, place)
  const { embeddingService: service } = settings
  return {
    optimizer: {
      ...settings,
      // Both have defaults, and are there where nobody has asked for a service.
      ...(service === undefined && embeddingProvider === 'tei' ? {} : { embeddingProvider }),
      ...(service === undefined ? {} : { embeddingServiceTimeout }),
      ...(isOfCluster(service) ? { embeddingAllowPrivateIP: true } : {}),
    },
  }
}

/** Names of Services as pods of their namespace, and of others, write them. */
const OF_CLUSTER = /^[a-z0-9-]+$|\.svc(\.cluster\.local)?\.?$/

/** Whether a URL leads to a Service of the cluster by its name. */
const isOfCluster = (service: string | undefined): boolean =>
  service !== undefined && OF_CLUSTER.test(URL.parse(service)?.hostname ?? '.')
