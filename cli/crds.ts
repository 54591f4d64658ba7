import { crdsYaml, DEFAULT_GROUP, writeCrds } from '../crds/index.ts'
import type { Command } from './command.ts'
import { readApiGroup } from './options/manifests.ts'

export const command: Command = {
  name: 'crds',
  synopsis: '[options]',
  about: 'Prints the custom resource definitions as YAML, or writes one file each with a kustomization.yaml.',
  options: {
    group: { type: 'string', value: 'GROUP', description: 'API group; also PORTICO_API_GROUP. Default: portico.dev.' },
    'api-group': { type: 'string', value: 'GROUP', description: 'The same as --group.' },
    directory: { type: 'string', short: 'o', value: 'DIR', description: 'Write files into this folder instead.' },
  },
  mostOperands: 0,
  async run(given, io) {
    const option = given.text('group') === undefined ? 'api-group' : 'group'
    const group = readApiGroup(given, io, option) ?? DEFAULT_GROUP
    const directory = given.text('directory')
    if (directory === undefined) io.out(crdsYaml(group))
    else for (const file of await writeCrds(directory, group)) io.out(`${directory}/${file}\n`)
    return 0
  },
}
