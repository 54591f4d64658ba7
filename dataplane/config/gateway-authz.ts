import { servedAuthz } from '../../crds/settings/auth/authz.ts'
import { asFile } from '../../crds/settings/file-form.ts'
import type { Static } from '../../crds/settings/schema.ts'

export const authz = asFile(servedAuthz)

export type AuthzConfig = Static<typeof authz>
