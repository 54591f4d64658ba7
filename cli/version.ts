import packageJson from '../package.json' with { type: 'json' }
import { apiGroup, DEFAULT_GROUP } from './api-group.ts'
import type { Command } from './command.ts'

export const command: Command = {
  name: 'version',
  synopsis: '[--output text|json]',
  about: 'Prints the version of Portico and Node, and the API group of its kinds.',
  options: {
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
    'api-group': { type: 'string', value: 'GROUP', description: 'API group; also PORTICO_API_GROUP.' },
  },
  async run(given, io) {
    const version = {
      version: packageJson.version,
      node: process.versions.node,
      apiGroup: apiGroup(given, io) ?? DEFAULT_GROUP,
    }
    io.out(
      given.text('output') === 'json'
        ? `${JSON.stringify(version)}\n`
        : `portico ${version.version}\nnode ${version.node}\napi group ${version.apiGroup}\n`,
    )
    return 0
  },
}
