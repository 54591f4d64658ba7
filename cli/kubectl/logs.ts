import { selectorText } from '../../console/places/pods.ts'
import { dataPlaneContainerName } from '../../operator/render/object/object.ts'
import type { Command } from '../command.ts'
import { clusterOptions, inCluster, readWorkload, WORKLOAD } from './cluster.ts'
import { awaitExit, startKubectl } from './program.ts'

export const command: Command = {
  name: 'logs',
  synopsis: `${WORKLOAD} [options]`,
  about: `Prints the logs of the data plane in all pods of a workload, by kubectl logs; with --server those of the MCP server
beside it.`,
  options: {
    ...clusterOptions,
    follow: { type: 'boolean', short: 'f', description: 'Keeps printing new lines.' },
    server: { type: 'boolean', description: 'Of the MCP server in the pods of an MCPServer.' },
    tail: { type: 'string', value: 'LINES', default: '200', description: 'Lines of each pod; -1 for all.' },
    since: { type: 'string', value: 'DURATION', description: 'None older than this, such as 10m.' },
  },
  run: (given, io) =>
    inCluster(given, io, async (cluster) => {
      const workload = await readWorkload(given, cluster)
      const own = dataPlaneContainerName(workload.kind)
      const since = given.text('since')
      const args = [
        'logs',
        ...cluster.kubectlOptions,
        `--selector=${selectorText(workload)}`,
        `--container=${given.flag('server') ? 'mcp' : own}`,
        `--tail=${given.text('tail')}`,
        ...(since === undefined ? [] : [`--since=${since}`]),
        ...(given.flag('follow') ? ['--follow', '--max-log-requests=50'] : []),
        '--prefix',
      ]
      return awaitExit(startKubectl(args, io, ['ignore', 'inherit', 'inherit']))
    }),
}
