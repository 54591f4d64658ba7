import { join } from 'node:path'
import packageJson from '../package.json' with { type: 'json' }

export const version: string = packageJson.version

/** Image of the data plane that belongs to this version. */
export const defaultImage = `portico:${packageJson.version}`

/** The manifests that run where none are named: in a checkout and in an installed package one folder above. */
export const quickstartFolder = join(import.meta.dirname, '..', 'samples', 'quickstart')
