import { ApiError, type ApiServer, isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import { childResource } from '../../operator/cluster/kubernetes/resource.ts'
import type { ReconcileContext } from '../../operator/reconcile/index.ts'
import { OPERATOR_NAME, OPERATOR_NAMESPACE } from '../../operator/render/network/network.ts'
import { type Given, type Io, readArguments } from '../command.ts'
import { readAdminPeers, readPodTemplate } from '../options/pod-options.ts'
import { defaultImage } from '../package-info.ts'
import { command as operatorCommand } from './index.ts'

interface OperatorDeployment {
  readonly spec: {
    readonly template: { readonly spec: { readonly containers: readonly { image: string; args?: string[] }[] } }
  }
}

type Settings = Pick<ReconcileContext, 'image' | 'adminPeers' | 'podTemplate' | 'podUsers'>

/** Returns the settings of the cluster's operator, by its Deployment; the defaults if no Deployment can be read. */
export async function readSettings(api: ApiServer, given: Given, io: Io): Promise<Settings> {
  const namespace = given.text('operator-namespace') ?? OPERATOR_NAMESPACE
  let args: readonly string[] = []
  let image = defaultImage
  try {
    const deployment = await api.get<OperatorDeployment>(childResource('Deployment'), namespace, OPERATOR_NAME)
    const [container] = deployment.spec.template.spec.containers
    args = container?.args?.slice(1) ?? []
    image = container?.image ?? image
  } catch (error) {
    if (!isNotFound(error) && !(error instanceof ApiError && error.status === 403)) throw error
    io.err(`portico: no operator in the namespace ${namespace} can be read: the default settings are used`)
  }
  const settings = readArguments(operatorCommand, args)
  if (settings === 'help') return { image }
  return {
    image: given.text('image') ?? settings.text('image') ?? image,
    ...readPodTemplate(settings),
    ...readAdminPeers(settings, namespace),
  }
}
