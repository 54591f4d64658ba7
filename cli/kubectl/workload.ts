import { type KindName, kinds, VERSION } from '../../crds/index.ts'
import { isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { type Given, UsageError } from '../command.ts'
import type { Cluster } from './cluster.ts'

export const WORKLOAD = '[KIND/]NAME'

const withPods = Object.values(kinds).filter(({ role }) => role === 'workload')

/** Returns the kinds with pods that a word may mean, as in kubectl: kind, plural or short name, in any case. */
function kindsNamed(word: string): typeof withPods {
  const wanted = word.toLowerCase()
  const found = withPods.filter(({ kind, plural, shortNames }) =>
    [kind.toLowerCase(), plural, ...shortNames].includes(wanted),
  )
  if (found.length > 0) return found
  throw new UsageError(`${word}: not a kind with pods; these are ${withPods.map(({ kind }) => kind).join(', ')}`)
}

/** Returns the workload that the one argument of a command names. Throws an Error if there is none, or several. */
export async function givenWorkload({ positionals }: Given, cluster: Cluster): Promise<KubernetesObject> {
  const [text, ...more] = positionals
  if (text === undefined || more.length > 0) throw new UsageError('takes one workload, as KIND/NAME or NAME')
  const slash = text.indexOf('/')
  const name = text.slice(slash + 1)
  const found: KubernetesObject[] = []
  for (const { kind, plural } of slash < 0 ? withPods : kindsNamed(text.slice(0, slash)))
    try {
      const resource = { group: cluster.group, version: VERSION, plural, kind: kind as KindName }
      found.push(await cluster.api.get(resource, cluster.namespace, name))
    } catch (error) {
      if (!isNotFound(error)) throw error
    }
  if (found.length > 1)
    throw new UsageError(`${name}: say which: ${found.map(({ kind }) => `${kind}/${name}`).join(' or ')}`)
  if (found[0] === undefined) throw new Error(`no workload ${text} in namespace ${cluster.namespace}`)
  return found[0]
}
