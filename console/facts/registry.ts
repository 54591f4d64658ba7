import { isObject } from '../../crds/settings/json.ts'
import { readYaml, valueOfYaml } from '../../dataplane/config/read/yaml.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'

type Part = Readonly<Record<string, unknown>>

/** The most characters of a configuration that is read for a page. */
const LONGEST = 256 * 1024

/** The settings that were read, by object: an object of the API server never changes. */
const known = new WeakMap<object, Part>()

/** Returns the settings of an MCPRegistry, whether they are fields of its `spec` or the text of `configYAML`. */
export function registrySettings(object: KubernetesObject): Part {
  const spec = isObject(object['spec']) ? object['spec'] : {}
  const text = spec['configYAML']
  if (typeof text !== 'string') return spec
  let read = known.get(object)
  if (read === undefined) {
    read = text.length > LONGEST ? {} : parsed(text)
    known.set(object, read)
  }
  return read
}

function parsed(text: string): Part {
  try {
    const value = valueOfYaml(readYaml(text))
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

/** Returns the names of the registries that the settings declare. */
export function declaredRegistries(object: KubernetesObject): readonly string[] {
  const { registries } = registrySettings(object)
  return (Array.isArray(registries) ? registries : []).flatMap((one) =>
    isObject(one) && typeof one['name'] === 'string' ? [one['name']] : [],
  )
}
