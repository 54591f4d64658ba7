import type { KubernetesObject } from '../../model/view.ts'
import { type ApiServer, isNotFound } from './api-server.ts'
import { apiVersionOf, type Resource } from './resource.ts'

const PAGE = 500

interface Which {
  readonly namespace?: string | undefined
  readonly labelSelector?: string
  readonly fieldSelector?: string
}

/** Lists every object of a kind by pages. Throws an ApiError, 404 if the cluster has no such kind. */
export async function listAll(
  api: ApiServer,
  resource: Resource,
  { namespace, labelSelector, fieldSelector }: Which = {},
): Promise<KubernetesObject[]> {
  const objects: KubernetesObject[] = []
  let token: string | undefined
  do {
    const { metadata, items } = await api.list(resource, namespace, {
      query: { limit: PAGE, continue: token, labelSelector, fieldSelector },
    })
    for (const item of items ?? []) objects.push({ ...item, apiVersion: apiVersionOf(resource), kind: resource.kind })
    token = metadata.continue
  } while (token)
  return objects
}

/** Lists like `listAll`, but returns none if the cluster has no such kind. */
export async function listServed(api: ApiServer, resource: Resource, which: Which): Promise<KubernetesObject[]> {
  try {
    return await listAll(api, resource, which)
  } catch (error) {
    if (isNotFound(error)) return []
    throw error
  }
}
