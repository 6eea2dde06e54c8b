import type { Metadata } from 'next';
import { StatusBoard } from '@/components/status-board';

export const metadata: Metadata = { title: 'Status' };

export default function Page() {
  return <StatusBoard />;
}
