import { hash } from 'node:crypto'

/** What is kept of a secret. It has 256 random bits, so a plain hash keeps it as well as a slow one would. */
export const secretDigest = (secret: string): string => hash('sha256', secret, 'base64url')
