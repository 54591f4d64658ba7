import { join } from 'node:path'
import packageJson from '../package.json' with { type: 'json' }

export const version: string = packageJson.version

/** The data plane's image of this version. */
export const defaultImage = `portico:${packageJson.version}`

/** The default manifests: one folder above in a checkout and in an installed package. */
export const quickstartFolder = join(import.meta.dirname, '..', 'samples', 'quickstart')
