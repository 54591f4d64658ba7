/** The CustomResourceDefinitions as YAML: files for `kubectl apply -k`, or one text. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { KindDeclaration } from './define.ts'
import { kinds } from './kinds/index.ts'
import { crdFor } from './structural.ts'

/** The API group of the committed files. */
export const DEFAULT_GROUP = 'portico.dev'

const yaml = (value: object) => stringify(value, { aliasDuplicateObjects: false, lineWidth: 0 })

const fileName = ({ plural }: KindDeclaration) => `${plural}.yaml`

export function crdFiles(group: string): ReadonlyMap<string, string> {
  const declarations: readonly KindDeclaration[] = Object.values(kinds)
  const files = new Map(declarations.map((declaration) => [fileName(declaration), yaml(crdFor(declaration, group))]))
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [...files.keys()].sort(),
  }
  return files.set('kustomization.yaml', yaml(kustomization))
}

/** Returns all definitions as one YAML stream, sorted by name. */
export const crdsYaml = (group: string): string =>
  Object.values<KindDeclaration>(kinds)
    .toSorted((one, other) => (one.plural < other.plural ? -1 : 1))
    .map((declaration) => yaml(crdFor(declaration, group)))
    .join('---\n')

/** Writes one file per kind and a kustomization.yaml into a folder. Returns the names of the files. */
export async function writeCrds(directory: string, group: string): Promise<readonly string[]> {
  await mkdir(directory, { recursive: true })
  const files = crdFiles(group)
  for (const [name, content] of files) await writeFile(join(directory, name), content)
  return [...files.keys()]
}
