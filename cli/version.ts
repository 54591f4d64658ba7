import { DEFAULT_GROUP } from '../crds/index.ts'
import type { Command } from './command.ts'
import { readApiGroup } from './options/manifests.ts'
import { version } from './package-info.ts'

export const command: Command = {
  name: 'version',
  synopsis: '[options]',
  about: 'Prints the version of Portico and of Node, and the API group of its kinds.',
  options: {
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
    'api-group': { type: 'string', value: 'GROUP', description: 'API group; also PORTICO_API_GROUP.' },
  },
  mostOperands: 0,
  async run(given, io) {
    const group = readApiGroup(given, io) ?? DEFAULT_GROUP
    const versions = { version, node: process.versions.node, apiGroup: group }
    io.out(
      given.text('output') === 'json'
        ? `${JSON.stringify(versions)}\n`
        : `portico ${version}\nnode ${versions.node}\napi group ${group}\n`,
    )
    return 0
  },
}
