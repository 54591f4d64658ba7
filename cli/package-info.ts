import packageJson from '../package.json' with { type: 'json' }

export const version: string = packageJson.version

/** Image of the data plane that belongs to this version. */
export const defaultImage = `portico:${packageJson.version}`
