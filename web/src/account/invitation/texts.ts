export const en = {
  title: 'Your invitation',
  text: (organization: string, role: string) => `You are invited to join ${organization}. Your role: ${role}.`,
  until: (day: string) => `The invitation is valid until ${day}.`,
  accept: 'Accept the invitation',
  over: 'This invitation is not valid',
  overText: 'It was used or withdrawn, has expired, or was sent to another address. Ask for a new invitation, or sign in with the invited address.',
  roles: { owner: 'owner', admin: 'administrator', finance: 'finance', member: 'member' } as Record<string, string>,
  again: 'Sign in with another address',
}

export const de: typeof en = {
  title: 'Ihre Einladung',
  text: (organization, role) => `Sie sind eingeladen, ${organization} beizutreten. Ihre Rolle: ${role}.`,
  until: (day) => `Die Einladung gilt bis zum ${day}.`,
  accept: 'Einladung annehmen',
  over: 'Diese Einladung ist nicht gültig',
  overText:
    'Sie wurde benutzt oder zurückgezogen, ist abgelaufen oder ging an eine andere Adresse. Bitten Sie um eine neue Einladung, oder melden Sie sich mit der eingeladenen Adresse an.',
  roles: { owner: 'Inhaber', admin: 'Administrator', finance: 'Finanzen', member: 'Mitglied' },
  again: 'Mit einer anderen Adresse anmelden',
}
