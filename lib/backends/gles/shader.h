/* SPDX-License-Identifier: MIT */
/*
 * The shaders that run a plan of lib/prepare/program.h, in GLSL ES 3.00. The texts have no
 * comments, because they are in the library.
 *
 * The first one is lib/prepare/kernel.h: a fragment makes a pixel of the tensor, with all its
 * channels as they are stored, in a texture of
 * 8, 16 or 32 bits a channel. So the samples of a
 * pixel are read once, however its channels are spread in the tensor. r[] is the program without
 * its tables, which are a texture of 1024 words a row, and then the run:
 *
 *	53, 56, 59	of each component: the byte of its first value, its pitch, and the
 *			logarithm of the words in a row of its image
 *	62		the mask of a sample's bits
 *	63		the row of the texture in which the program's tables begin
 *	64		the row in which the pixels begin: several images are one above the other
 *	65		of each component: its taps and outputs along x, then along y
 *
 * The second one makes the words of the tensor. A fragment is a word. It divides the word's place
 * by the steps to find its values, and is discarded if it has none, so nothing else is written. A
 * byte k is written as k / 255, which a target of 8 bits stores as k. r[] is:
 *
 *	0		the logarithm of the words in a row of the tensor's image
 *	1		the byte in it at which the tensor's values begin
 *	2		bytes of a value
 *	3, 4		the first and the last value of a word that this pass makes
 *	5		the pixel and the channel of the value at the lowest place
 *	8, 14, 20	of each axis of the tensor, from the largest step to the smallest: its step
 *			in bytes, the bytes that it covers, 1 / step as a float, and what a step
 *			adds to the pixel and the channel
 */
#ifndef DLBUF_GLES_SHADER_H
#define DLBUF_GLES_SHADER_H

/* r[] of the first shader. */
struct gles_pixel_run {
	uint32_t program[53], at[3], pitches[3], shifts[3], mask, tables, row, taps[3][4];
};

/* r[] of the second one. */
struct gles_word_run {
	uint32_t shift, to, size, begin, end, pixel[3];
	struct gles_axis {
		uint32_t step, bytes;
		float inverse;
		uint32_t adds[3];
	} axes[3];
};

/*
 * d / s, for a quotient below 2^16 and d and s below 2^31; r is 1 / s. The product is off by a few
 * 2^-23 of itself, so the quotient is off by one at most, which the remainder shows. It is text for
 * the shader, and code for tests/unit/gles.c.
 */
#define GLES_QUOTIENT(PROGRAM) PROGRAM(						\
uint Q(uint d,uint s,float r){							\
uint i=uint(float(d)*r);							\
int e=int(d-i*s);								\
return e<0?i-1u:uint(e)>=s?i+1u:i;						\
})
#define GLES_TEXT(...) #__VA_ARGS__

/* The begin of all three. */
static const char gles_version[] =
"#version 300 es\n"
"precision highp float;precision highp int;"
"precision highp sampler2D;precision highp usampler2D;";

/* A triangle that covers the viewport. */
static const char gles_vertex_shader[] =
"void main(){"
"gl_Position=vec4(gl_VertexID==1?3.:-1.,gl_VertexID==2?3.:-1.,0.,1.);"
"}";

static const char gles_pixel_shader[] =
"uniform sampler2D s[3];"
"uniform usampler2D t;"
"uniform uint r[77];"
"out uvec4 made;"
"uint T(uint i){return texelFetch(t,ivec2(i&1023u,(i>>10)+r[63]),0).x;}"
"float F(uint i){return uintBitsToFloat(T(i));}"
"float G(uint i){return uintBitsToFloat(r[i]);}"

"float S(uint c,uint at){"
"uint w=at>>2,n=r[59u+c];"
"ivec2 p=ivec2(w&((1u<<n)-1u),w>>n);"
"vec4 v=c==0u?texelFetch(s[0],p,0):c==1u?texelFetch(s[1],p,0):texelFetch(s[2],p,0);"
"uvec4 b=uvec4(v*255.+.5);"
"w=(b.x|b.y<<8|b.z<<16|b.w<<24)>>((at&3u)<<3)&r[62];"
"return float(w>>r[18u+6u*c]&r[19u+6u*c]);"
"}"

"float C(uint c,uvec2 p){"
"uint k=14u+6u*c,x=r[k+2u]+2u+p.x,y=r[k+3u]+2u+p.y,m=65u+4u*c,nx=r[m+1u],ny=r[m+3u],"
"b=r[0]>>3,step=r[k+1u]*b,row=r[53u+c]+T(y)*r[56u+c]+r[k]*b+T(x)*step;"
"float sum=0.;"
"for(uint v=r[m+2u];v>0u;v--){"
"float f=0.;"
"for(uint u=0u;u<r[m];u++)"
"f+=S(c,row+u*step)*F(x+nx+u*nx);"
"y+=ny;"
"sum+=f*F(y);"
"row+=r[56u+c];"
"}"
"return sum;"
"}"

"uint V(float f){"
"uint b=floatBitsToUint(f),to=r[3],n=b>>16&0x8000u;"
"if(to==4u)return b;"
"if(to==3u)return(b+0x7fffu+(b>>16&1u))>>16;"
"if(to==2u){"
"b&=0x7fffffffu;"
"if(b<0x38800000u)b=floatBitsToUint(uintBitsToFloat(b)+.5)-0x3f000000u;"
"else b=b>=0x477ff000u?0x7c00u:(b-0x38000000u+0xfffu+(b>>13&1u))>>13;"
"return n|b;"
"}"
"float l=float((to>0u?-128:0)-int(r[4]));"
"return uint(int(roundEven(clamp(f,l,l+255.)))+int(r[4]))&255u;"
"}"

"void main(){"
"uvec2 p=uvec2(gl_FragCoord)-uvec2(r[7],r[64]+r[8]);"
"bool inside=p.x<r[9]&&p.y<r[10];"
"vec3 v=vec3(0);"
"if(inside){"
"if(r[12]>0u)p.x=r[9]-1u-p.x;"
"if(r[13]>0u)p.y=r[10]-1u-p.y;"
"if(r[11]>0u)p=p.yx;"
"for(uint c=0u;c<r[1];c++)v[c]=C(c,p);"
"}"
"uvec4 o=uvec4(0);"
"for(uint c=0u;c<r[2];c++){"
"uint m=32u+4u*c;"
"o[c]=V(inside?"
"clamp(G(m)*v.x+G(m+1u)*v.y+G(m+2u)*v.z+G(m+3u),G(44u+c),G(47u+c)):G(50u+c));"
"}"
"made=o;"
"}";

static const char gles_word_shader[] =
"uniform usampler2D t;"
"uniform uint r[26];"
"out vec4 made;"
GLES_QUOTIENT(GLES_TEXT)
"void main(){"
"uint w=0u,f=((uint(gl_FragCoord.y)<<r[0])+uint(gl_FragCoord.x))*4u-r[1];"
"bool any=false;"
"for(uint k=r[3];k<=r[4];k++){"
"uint d=f+k*r[2];"
"uvec3 n=uvec3(r[5],r[6],r[7]);"
"for(uint a=8u;a<26u;a+=6u){"
"if(d>=r[a+1u]){d=1u;break;}"
"uint i=Q(d,r[a],uintBitsToFloat(r[a+2u]));"
"d-=i*r[a];"
"n+=i*uvec3(r[a+3u],r[a+4u],r[a+5u]);"
"}"
"if(d>0u)continue;"
"any=true;"
"uvec4 v=texelFetch(t,ivec2(n.xy),0);"
"w|=v[n.z]<<(k*r[2]*8u);"
"}"
"if(!any)discard;"
"made=vec4(uvec4(w)>>uvec4(0,8,16,24)&255u)/255.;"
"}";

#endif /* DLBUF_GLES_SHADER_H */
