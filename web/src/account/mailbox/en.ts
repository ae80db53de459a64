export const en = {
  title: 'Mailbox',
  intro: 'This service sends no e-mail. It shows each e-mail here instead. For development only.',
  empty: 'No mail yet. Ask for a sign-in code, and it appears here.',
  to: 'To',
}
